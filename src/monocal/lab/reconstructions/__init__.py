"""Published methods without released code, as we read them; `monocal methods` finds them by entry point."""
