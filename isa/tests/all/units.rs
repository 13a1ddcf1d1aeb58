//! Numbers with their units.

use systole_isa::chip::units::Quantity;

#[test]
fn numbers_take_the_units_of_their_quantity() {
    let rows: &[(Quantity, &str, Option<f64>)] = &[
        (Quantity::Hertz, "2.2GHz", Some(2.2e9)),
        (Quantity::Hertz, "940 MHz", Some(9.4e8)),
        (Quantity::Bandwidth, "1.6TB/s", Some(1.6e12)),
        (Quantity::Bandwidth, "1.6 TB", None),
        (Quantity::Bytes, "32MiB", Some(33554432.0)),
        (Quantity::Bytes, "1_024", Some(1024.0)),
        (Quantity::Bytes, "16 gib", Some(17179869184.0)),
        (Quantity::Seconds, "500ns", Some(5e-7)),
        (Quantity::Seconds, "5e-7 s", Some(5e-7)),
        (Quantity::Seconds, "5e-7", None),
        (Quantity::Bandwidth, "1600", None),
        (Quantity::Bandwidth, "800 Gb/s", None),
        (Quantity::Seconds, "1 us", Some(1e-6)),
        (Quantity::Share, "90%", Some(0.9)),
        (Quantity::Count, "256", Some(256.0)),
        (Quantity::Count, "256 rows", None),
        (Quantity::Count, "", None),
        (Quantity::Rate, "-1", Some(-1.0)),
        (Quantity::Rate, "1-1", None),
        (Quantity::Rate, "ä", None),
    ];
    for &(quantity, text, value) in rows {
        assert_eq!(quantity.parse(text), value, "{quantity:?} {text:?}");
    }
}

#[test]
fn printed_values_read_back() {
    for (quantity, value, text) in [
        (Quantity::Hertz, 1.5e9, "1.5 GHz"),
        (Quantity::Bytes, 134217728.0, "128 MiB"),
        (Quantity::Bandwidth, 819e9, "819 GB/s"),
        (Quantity::Seconds, 5e-7, "500 ns"),
        (Quantity::Count, 128.0, "128"),
    ] {
        assert_eq!(quantity.print(value), text);
        assert_eq!(quantity.parse(text), Some(value));
    }
}
