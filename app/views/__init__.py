"""One page a file, each a function `show`; `app.catalogue` registers them."""
