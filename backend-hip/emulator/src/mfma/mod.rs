//! Matrix instructions: element formats, lane layouts and the accumulation each architecture documents.
