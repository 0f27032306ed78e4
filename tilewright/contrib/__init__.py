"""Parts of the legacy API's `contrib` that scripts ask for."""
