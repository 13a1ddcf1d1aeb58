//! Scripted keys on a recorded profile give the recorded screens, at two sizes. `BLESS=1` writes the screens again.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use systole_runtime::profile;
use systole_tui::app::{Help, keys};
use systole_tui::{App, Data, Depth, Effect, Event, Key, Phase, Theme, View, export, frame, update};

const PROFILE: &[u8] = include_bytes!("data/mlp.sysp");

fn data() -> Arc<Data> {
    static DATA: OnceLock<Arc<Data>> = OnceLock::new();
    let read = || Arc::new(Data::new(profile::read(PROFILE).expect("the recorded profile")));
    Arc::clone(DATA.get_or_init(read))
}

fn app(width: u16, height: u16) -> App {
    let mut app = App::new("mlp.sysp", Theme::full(), Phase::Replay);
    update(&mut app, Event::Resize { width, height });
    update(&mut app, Event::Data(data()));
    app
}

fn press(app: &mut App, keys: &str) -> Vec<Effect> {
    Key::script(keys).into_iter().flat_map(|k| update(app, Event::Key(k))).collect()
}

fn screen(app: &App) -> String {
    export::text(&frame(app, app.size.0, app.size.1))
}

#[test]
fn screens_are_as_recorded() {
    let scripts = [
        ("overview", "1"),
        ("timeline", "2"),
        ("timeline-zoomed", "2nnn++++jjj"),
        ("operations", "3"),
        ("operations-filtered", "3/dot<enter>ss"),
        ("inside", "3<enter>"),
        ("roofline", "4jj"),
        ("memory", "5<right><right><right><right>"),
        ("stalls", "6j"),
        ("interconnect", "7"),
        ("program", "8nnjj"),
        ("chip", "9jjj<enter>"),
        ("what-if", "9:set hbm.bandwidth=400GB/s<enter>"),
        ("help", "2?"),
        ("words", "6??"),
        ("command", "3:s<tab>"),
        ("expanded", "2e"),
    ];
    let mut seen = HashSet::new();
    for (name, keys) in scripts {
        for (width, height) in [(80, 24), (200, 60)] {
            let mut app = app(width, height);
            press(&mut app, keys);
            seen.insert(app.view);
            let text = screen(&app);
            let path = format!("{}/tests/data/{name}-{width}x{height}.txt", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&path, &text).expect("writable");
            }
            let want = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
            assert_eq!(text, want, "{name} {width}x{height}");
        }
    }
    let unseen: Vec<&str> = View::ALL.into_iter().filter(|v| !seen.contains(v)).map(View::name).collect();
    assert!(unseen.is_empty(), "views without a row above: {}", unseen.join(", "));
}

/// A tab that the screen has no room for can neither be seen nor hit.
#[test]
fn tabs_of_all_views_fit_the_least_screen_with_their_keys() {
    let mut app = app(80, 24);
    for view in View::ALL {
        let key = keys::of_view(view).expect("a key").name();
        press(&mut app, &key);
        assert_eq!(app.view, view, "`{key}`");
        let text = screen(&app);
        let tabs = text.lines().next().unwrap_or("");
        // Each ends with a space: one that is cut ends where the screen does.
        assert!(tabs.chars().count() < 80, "no room for all tabs: {tabs}");
        assert!(tabs.contains(&format!(" {key} ")), "no tab says `{key}`: {tabs}");
    }
}

#[test]
fn every_view_is_in_the_guide() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dashboard.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    for name in View::ALL.into_iter().map(View::name) {
        assert!(guide.contains(&format!("\n| {name} |")), "docs/dashboard.md has no row for the view `{name}`");
        let data = guide.lines().filter_map(|l| l.split(" | ").nth(1)).any(|views| views == name);
        assert!(data, "docs/dashboard.md does not say what the JSON of the view `{name}` holds");
    }
}

#[test]
fn any_size_draws_every_view() {
    let mut failed = app(80, 24);
    update(&mut failed, Event::Phase(Phase::Failed("a fault\nwith two lines".into())));
    let empty = App::new("x", Theme::full(), Phase::Compiling);
    for mut app in [app(80, 24), failed, empty] {
        for view in View::ALL {
            app.view = view;
            for (width, height) in [(0, 0), (1, 1), (10, 3), (24, 6), (40, 12), (81, 25), (300, 100)] {
                update(&mut app, Event::Resize { width, height });
                for help in [Help::None, Help::Keys, Help::Words] {
                    app.help = help;
                    let text = screen(&app);
                    assert_eq!(text.lines().count(), height as usize, "{view:?} {width}x{height}");
                }
            }
        }
    }
}

#[test]
fn any_keys_are_taken() {
    // Every key of the table and many others, in an order that a small generator makes.
    let keys: Vec<Key> = Key::script(
        "1234567890jkhlgGnb+-[]sr/:?efwtdp.,;><q<up><down><left><right><pgup><pgdn><home><end><enter><esc><tab><backtab>\
         <backspace><space>set clock=1GHz",
    );
    let mut app = app(100, 30);
    let mut state = 12345u64;
    for i in 0..4000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        update(&mut app, Event::Key(keys[(state >> 33) as usize % keys.len()]));
        let cycles = data().cycles();
        assert!(app.from < app.to && app.to <= cycles && app.cursor < cycles, "{i}: {}..{}", app.from, app.to);
        if i % 40 == 0 {
            screen(&app);
        }
    }
}

#[test]
fn keys_do_what_the_table_says() {
    let mut a = app(80, 24);
    assert_eq!(press(&mut a, "w"), vec![Effect::Write("systole-overview.svg".into())]);
    assert_eq!(press(&mut a, ":w x.txt<enter>"), vec![Effect::Write("x.txt".into())]);
    assert_eq!(press(&mut a, "9:set dma.engines=4<enter>r"), vec![Effect::Rerun(vec!["dma.engines=4".into()])]);
    assert_eq!(press(&mut a, ":nonsense<enter>"), vec![]);
    assert!(a.message.contains("no command `nonsense`"), "{}", a.message);
    assert_eq!(press(&mut a, "p"), vec![]);
    assert!(a.message.contains("systole top MODULE"));
    update(&mut a, Event::Phase(Phase::Running));
    assert_eq!(press(&mut a, "p"), vec![Effect::Pause(true)]);
    assert_eq!(press(&mut a, ".<"), vec![Effect::Step(systole_tui::Step::Bundle), Effect::Speed(Some(100_000_000))]);
    // Freezing keeps what is shown; Esc thaws it.
    press(&mut a, "f");
    assert!(a.frozen.is_some());
    press(&mut a, "<esc>");
    assert!(a.frozen.is_none());
    assert_eq!(press(&mut a, "3/zzz<enter>"), vec![]);
    assert!(a.rows().is_empty());
    press(&mut a, "<esc>");
    assert!(!a.rows().is_empty());
    assert_eq!(press(&mut a, "q"), vec![Effect::Quit]);
}

#[test]
fn the_mouse_reaches_tabs_rows_and_cycles() {
    let mut a = app(120, 40);
    let hits = systole_tui::views::draw(&a, &mut frame(&a, 120, 40));
    let tab = hits.iter().find(|h| h.1 == systole_tui::app::Hit::View(View::Timeline)).expect("a tab").0;
    update(&mut a, Event::Press { x: tab[0] + 1, y: tab[1], hits: hits.clone() });
    assert_eq!(a.view, View::Timeline);
    let hits = systole_tui::views::draw(&a, &mut frame(&a, 120, 40));
    let lane = hits.iter().find(|h| matches!(h.1, systole_tui::app::Hit::Lane { .. })).expect("a lane").0;
    update(&mut a, Event::Press { x: lane[0] + lane[2] / 2, y: lane[1], hits: hits.clone() });
    let cycles = a.data.as_ref().expect("data").cycles();
    assert!(a.cursor > cycles * 2 / 5 && a.cursor < cycles * 3 / 5, "{} of {cycles}", a.cursor);
    let before = a.to - a.from;
    update(&mut a, Event::Wheel { up: true });
    assert!(a.to - a.from <= before / 2 + 1);
    update(&mut a, Event::Hover { x: lane[0], y: lane[1], hits });
    assert!(a.hover.is_some());
}

#[test]
fn fewer_colours_and_symbols_are_enough() {
    let mut a = app(100, 30);
    for view in View::ALL {
        a.view = view;
        a.theme = Theme { depth: Depth::None, ascii: true, ..Theme::full() };
        let buffer = frame(&a, 100, 30);
        assert!(export::text(&buffer).is_ascii(), "{view:?}");
        let plain =
            |c: &ratatui::buffer::Cell| c.fg == ratatui::style::Color::Reset && c.bg == ratatui::style::Color::Reset;
        assert!(buffer.content.iter().all(plain), "{view:?}");
        a.theme.depth = Depth::Sixteen;
        let rgb = |c: &ratatui::buffer::Cell| matches!(c.fg, ratatui::style::Color::Rgb(..));
        assert!(!frame(&a, 100, 30).content.iter().any(rgb), "{view:?}");
    }
}

#[test]
fn views_are_written_as_pictures_text_and_data() {
    let a = app(100, 30);
    let svg = export::for_file(&a, "x.svg").expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("units") && svg.ends_with("</svg>\n"));
    assert_eq!(export::for_file(&a, "x.txt").expect("text"), screen(&a));
    let json: serde_json::Value = serde_json::from_str(&export::for_file(&a, "x.json").expect("data")).expect("JSON");
    assert_eq!(json["cycles"], data().profile.meta.cycles);
    assert!(export::for_file(&a, "x.png").is_err());
}

#[test]
fn what_ifs_are_compared_with_the_run_they_start_from() {
    let mut a = app(120, 40);
    let faster = |times: u64| {
        let mut d = (*data()).clone();
        d.profile.meta.cycles /= times;
        Arc::new(d)
    };
    for (times, word) in [(2, "2.0"), (4, "4.0")] {
        update(&mut a, Event::Rerun(faster(times)));
        assert!(a.message.contains(word) && a.message.contains("times faster"), "{times}: {}", a.message);
    }
    // With the clock halved too, fewer cycles are no less time.
    let mut d = (*data()).clone();
    d.profile.meta.cycles /= 2;
    d.profile.meta.chip.clock_hz /= 4.0;
    update(&mut a, Event::Rerun(Arc::new(d)));
    assert!(a.message.contains("times slower"), "{}", a.message);
}

#[test]
fn steps_move_the_cursor_and_the_bundle() {
    let mut a = app(120, 40);
    a.phase = Phase::Running;
    let at = |cycle: u64, bundle: u32| {
        let mut d = (*data()).clone();
        d.places = vec![(cycle, Some(bundle))];
        Arc::new(d)
    };
    update(&mut a, Event::Data(at(900, 7)));
    assert_eq!(a.cursor, 0, "a run that goes on leaves the cursor where it is");
    // A run that is stopped stands behind its last cycle so far.
    let end = data().cycles();
    for (cycle, bundle) in [(1000, 11), (1001, 12), (end, 13)] {
        update(&mut a, Event::Data(at(cycle, bundle)));
        update(&mut a, Event::Phase(Phase::Paused));
        assert_eq!(a.cursor, cycle.min(end - 1));
        press(&mut a, "8");
        assert!(screen(&a).contains(&format!("bundle {bundle} of")), "{}", screen(&a));
    }
}

#[test]
fn themes_differ_on_every_terminal() {
    for depth in [Depth::Full, Depth::Sixteen] {
        let frames: Vec<_> = Theme::ALL
            .into_iter()
            .map(|palette| {
                let mut a = app(80, 24);
                a.theme = Theme { palette, depth, ..Theme::full() };
                frame(&a, 80, 24)
            })
            .collect();
        for (i, x) in frames.iter().enumerate() {
            let area = x.area.width as usize * x.area.height as usize;
            for y in &frames[..i] {
                let differ = x.content.iter().zip(&y.content).filter(|(p, q)| (p.fg, p.bg) != (q.fg, q.bg)).count();
                assert!(differ > area / 2, "{depth:?}: {differ} cells of {area} differ");
            }
        }
    }
}

#[test]
fn maps_fit_small_screens() {
    use systole_runtime::profile::LinkInfo;
    let mut d = (*data()).clone();
    d.profile.meta.topology = vec![16, 16];
    let link = |from: u32, to: u32| LinkInfo { from_chip: from, to_chip: to, axis: 1, bytes: 64, busy: 5 };
    d.profile.meta.links = (0..255).map(|c| link(c, c + 1)).collect();
    d.profile.links = vec![Default::default(); 255];
    for (width, height) in [(200, 60), (80, 40), (60, 40)] {
        let mut a = app(width, height);
        update(&mut a, Event::Data(Arc::new(d.clone())));
        press(&mut a, "7");
        let text = screen(&a);
        let told = text.lines().find(|l| l.contains("chips do not fit"));
        assert!(told.is_none(), "{width}x{height}: {text}");
        let all =
            text.contains("[255]") || text.lines().filter(|l| l.matches(['░', '·', '●']).count() >= 16).count() >= 16;
        assert!(all, "{width}x{height}: {text}");
    }
}
