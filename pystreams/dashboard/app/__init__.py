"""The application: routes, files of the pages, and the HTTP server that runs it all.

May import every room of the dashboard. Sends no requests about streams: that is the task of `api`.
"""
