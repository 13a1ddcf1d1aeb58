//! The queue of a device.

use std::sync::mpsc::channel;
use systole_pjrt::queue::Queue;

#[test]
fn work_is_done_in_order_and_survives_a_panic() {
    let (queue, (tell, hear)) = (Queue::default(), channel());
    for i in 0..100 {
        let tell = tell.clone();
        queue.push(move || {
            assert!(i != 50, "one piece fails");
            tell.send(i).expect("heard");
        });
    }
    let expected: Vec<i32> = (0..100).filter(|i| *i != 50).collect();
    assert_eq!(hear.iter().take(99).collect::<Vec<i32>>(), expected);
}
