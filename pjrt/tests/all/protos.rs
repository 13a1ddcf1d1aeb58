//! Messages of the interface.

use prost::Message;
use systole_pjrt::proto::DeviceAssignment;

#[test]
fn assignments_keep_their_order() {
    let a = DeviceAssignment::new(2, 3, &[5, 4, 3, 2, 1, 0]);
    assert_eq!(a.devices[0].ids, [5, 2]);
    assert_eq!(a.ids(), [5, 4, 3, 2, 1, 0]);
    let again = DeviceAssignment::decode(&a.encode_to_vec()[..]).expect("readable");
    assert_eq!(again.ids(), a.ids());
}
