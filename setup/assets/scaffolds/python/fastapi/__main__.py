"""Serves the application: ``python -m {{module}}``."""

import os

import uvicorn


def main() -> None:
    uvicorn.run(
        "{{module}}.app:create_app",
        factory=True,
        host=os.environ.get("HOST", "127.0.0.1"),
        port=int(os.environ.get("PORT", "8000")),
    )


if __name__ == "__main__":
    main()
