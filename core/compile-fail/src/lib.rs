//! A home for the tests in `tests/ui`: programs built against `lapidary-core` without its default
//! features, so that each of them builds in seconds.
