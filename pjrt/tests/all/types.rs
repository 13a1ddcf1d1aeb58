//! Numbers of element types.

use systole_isa::DType;
use systole_pjrt::types::*;

#[test]
fn every_element_type_has_a_number() {
    for t in DType::all() {
        assert_eq!(from_number(to_number(t)), Some(t), "{t}");
    }
}
