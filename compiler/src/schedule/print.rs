//! Listings of schedules.
