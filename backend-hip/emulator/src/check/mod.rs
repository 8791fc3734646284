//! Checks of what hardware would not report: missing waits, races, hazards, uninitialised and out-of-bounds reads.
