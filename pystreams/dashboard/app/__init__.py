"""The application: routes, files of the pages, and the HTTP server that runs it all.

May import every room of the dashboard: it is where they meet. Asks no server about streams: `api` does.
"""
