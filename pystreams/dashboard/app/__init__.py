"""The application: routes, files of the pages, and the HTTP server that runs it all."""
