"""Serves the application: ``python -m {{module}}``."""

import logging
import os

from waitress import serve

from .app import create_app


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    serve(
        create_app(),
        host=os.environ.get("HOST", "127.0.0.1"),
        port=int(os.environ.get("PORT", "8000")),
    )


if __name__ == "__main__":
    main()
