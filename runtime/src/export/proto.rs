//! The parts of Perfetto's and XProf's messages that are written, by hand: field numbers are those of the public formats.

/// Messages: their fields by kind, as a `.proto` file says it, each with its number. `message` is one that may be missing, `messages` are
/// any number of them; in brackets is how prost writes what is of no such kind.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident { $($fields:tt)+ })+) => {
        $(messages! { @ [$(#[$about])* $name] [] $($fields)+ })+
    };
    (@ [$(#[$about:meta])* $name:ident] [$($done:tt)*]) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name { $($done)* }
    };
    (@ $of:tt [$($done:tt)*] $kind:ident: $($(#[$doc:meta])* $field:ident = $tag:literal),+; $($rest:tt)*) => {
        messages! { @ $of [$($done)* $($(#[$doc])* #[prost($kind, tag($tag))] pub $field: scalar!($kind),)+] $($rest)* }
    };
    (@ $of:tt [$($done:tt)*] optional $kind:ident: $($(#[$doc:meta])* $field:ident = $tag:literal),+; $($rest:tt)*) => {
        messages! { @ $of [$($done)* $(
            $(#[$doc])* #[prost($kind, optional, tag($tag))] pub $field: Option<scalar!($kind)>,
        )+] $($rest)* }
    };
    (@ $of:tt [$($done:tt)*] repeated $kind:ident: $($(#[$doc:meta])* $field:ident = $tag:literal),+; $($rest:tt)*) => {
        messages! { @ $of [$($done)* $(
            $(#[$doc])* #[prost($kind, repeated, tag($tag))] pub $field: Vec<scalar!($kind)>,
        )+] $($rest)* }
    };
    (@ $of:tt [$($done:tt)*] unpacked $kind:ident: $($field:ident = $tag:literal),+; $($rest:tt)*) => {
        messages! { @ $of [$($done)* $(
            #[prost($kind, repeated, packed = "false", tag($tag))] pub $field: Vec<scalar!($kind)>,
        )+] $($rest)* }
    };
    (@ $of:tt [$($done:tt)*] message $t:ident: $($(#[$doc:meta])* $field:ident = $tag:literal),+; $($rest:tt)*) => {
        messages! { @ $of [$($done)* $(
            $(#[$doc])* #[prost(message, optional, tag($tag))] pub $field: Option<$t>,
        )+] $($rest)* }
    };
    (@ $of:tt [$($done:tt)*] messages $t:ident: $($(#[$doc:meta])* $field:ident = $tag:literal),+; $($rest:tt)*) => {
        messages! { @ $of [$($done)* $(
            $(#[$doc])* #[prost(message, repeated, tag($tag))] pub $field: Vec<$t>,
        )+] $($rest)* }
    };
    (@ $of:tt [$($done:tt)*] [$($how:tt)+] $t:ty: $field:ident = $tag:literal; $($rest:tt)*) => {
        messages! { @ $of [$($done)* #[prost($($how)+, tag($tag))] pub $field: $t,] $($rest)* }
    };
    (@ $of:tt [$($done:tt)*] [$($how:tt)+] $t:ty: $field:ident = ($($tags:literal),+); $($rest:tt)*) => {
        messages! { @ $of [$($done)* #[prost($($how)+, tags($($tags),+))] pub $field: $t,] $($rest)* }
    };
}

/// What a scalar kind of field is in Rust.
macro_rules! scalar {
    (int32) => {
        i32
    };
    (int64) => {
        i64
    };
    (uint32) => {
        u32
    };
    (uint64) => {
        u64
    };
    (fixed64) => {
        u64
    };
    (double) => {
        f64
    };
    (bool) => {
        bool
    };
    (string) => {
        String
    };
}

/// Perfetto's trace.
pub mod perfetto {
    use prost::Oneof;

    messages! {
        Trace {
            messages TracePacket: packet = 1;
        }
        TracePacket {
            optional uint64: timestamp = 8;
            optional uint32: trusted_packet_sequence_id = 10, sequence_flags = 13;
            message TrackEvent: track_event = 11;
            message InternedData: interned_data = 12;
            message TrackDescriptor: track_descriptor = 60;
        }
        TrackDescriptor {
            optional uint64: uuid = 1, parent_uuid = 5;
            optional string: name = 2;
            message ProcessDescriptor: process = 3;
            message CounterDescriptor: counter = 8;
            optional int32: child_ordering = 11, sibling_order_rank = 12;
        }
        ProcessDescriptor {
            optional int32: pid = 1;
            optional string: process_name = 6;
        }
        CounterDescriptor {
            optional string: unit_name = 6;
        }
        InternedData {
            messages Interned: event_categories = 1, event_names = 2;
        }
        Interned {
            optional uint64: iid = 1;
            optional string: name = 2;
        }
        TrackEvent {
            unpacked uint64: category_iids = 3;
            messages DebugAnnotation: debug_annotations = 4;
            optional int32:
                /// 1 begin, 2 end, 4 counter.
                r#type = 9;
            optional uint64: name_iid = 10, track_uuid = 11;
            optional double: double_counter_value = 44;
            unpacked fixed64: flow_ids = 47, terminating_flow_ids = 48;
        }
        DebugAnnotation {
            optional string: name = 10;
            [oneof = "AnnotationValue"] Option<AnnotationValue>: value = (3, 6);
        }
    }

    #[derive(Clone, PartialEq, Oneof)]
    pub enum AnnotationValue {
        #[prost(uint64, tag = "3")]
        Uint(u64),
        #[prost(string, tag = "6")]
        Text(String),
    }
}

/// XProf's planes.
pub mod xplane {
    use prost::Oneof;
    use std::collections::BTreeMap;

    messages! {
        XSpace {
            messages XPlane: planes = 1;
            repeated string: hostnames = 4;
        }
        XPlane {
            int64: id = 1;
            string: name = 2;
            messages XLine: lines = 3;
            [btree_map = "int64, message"] BTreeMap<i64, XEventMetadata>: event_metadata = 4;
            [btree_map = "int64, message"] BTreeMap<i64, XStatMetadata>: stat_metadata = 5;
            messages XStat: stats = 6;
        }
        XLine {
            int64: id = 1, timestamp_ns = 3, duration_ps = 9;
            string: name = 2;
            messages XEvent: events = 4;
        }
        XEvent {
            int64: metadata_id = 1, offset_ps = 2, duration_ps = 3;
            messages XStat: stats = 4;
        }
        XStat {
            int64: metadata_id = 1;
            [oneof = "XValue"] Option<XValue>: value = (2, 3, 4, 5, 6, 7);
        }
    }

    #[derive(Clone, PartialEq, Oneof)]
    pub enum XValue {
        #[prost(double, tag = "2")]
        Double(f64),
        #[prost(uint64, tag = "3")]
        Uint64(u64),
        #[prost(int64, tag = "4")]
        Int64(i64),
        #[prost(string, tag = "5")]
        Str(String),
        #[prost(bytes = "vec", tag = "6")]
        Bytes(Vec<u8>),
        #[prost(uint64, tag = "7")]
        Ref(u64),
    }

    messages! {
        XEventMetadata {
            int64: id = 1;
            string: name = 2, display_name = 4;
            [bytes = "vec"] Vec<u8>: metadata = 3;
            messages XStat: stats = 5;
        }
        XStatMetadata {
            int64: id = 1;
            string: name = 2;
        }
        MemoryAccess {
            int32:
                /// 1 read, 2 write.
                operation_type = 1;
            uint64:
                /// 1 HBM.
                memory_space = 2,
                bytes_accessed = 3;
        }
        MemoryAccessBreakdown {
            messages MemoryAccess: memory_accessed = 1;
        }
    }
}

pub mod hlo;
