//! Libraries in processes of their own: the caller's side ([`Process`]) and the server's ([`serve`]). They speak over a socket that the
//! server finds where its standard input would be; standard output and error are the caller's, so what a library prints is seen.

use crate::here::Loaded;
use crate::message;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};

/// A request: whether there is a function.
const HAS: &[u8] = b"has";
/// A request: a function's results.
const CALL: &[u8] = b"call";
/// An answer: done.
const DONE: &[u8] = b"done";
/// An answer: not done, and why.
const REFUSED: &[u8] = b"refused";

/// A process that has loaded a library.
#[derive(Debug)]
pub(crate) struct Process {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// None behind the end, so that the server sees it.
    channel: Option<UnixStream>,
    child: Child,
}

impl Process {
    /// Starts the program `server` on a library.
    pub(crate) fn start(server: &Path, library: &Path) -> Result<Process, String> {
        let starts = |e: io::Error| format!("{}, which runs the functions of libraries: {e}", server.display());
        let (channel, theirs) = UnixStream::pair().map_err(starts)?;
        let child =
            Command::new(server).arg(library).stdin(Stdio::from(OwnedFd::from(theirs))).spawn().map_err(starts)?;
        let mut inner = Inner { channel: Some(channel), child };
        inner.answer()?;
        Ok(Process { inner: Mutex::new(inner) })
    }

    fn ask(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, String> {
        // A caller that panicked half-way leaves a channel that the next answer does not fit; that is found there.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = inner.channel.as_mut().map(|channel| message::send(channel, parts));
        match sent {
            Some(Ok(())) => inner.answer(),
            Some(Err(_)) | None => Err(inner.ended()),
        }
    }

    /// Whether the library has a function of that name.
    pub(crate) fn has(&self, name: &str) -> Result<bool, String> {
        Ok(self.ask(&[HAS, name.as_bytes()])?.first().is_some_and(|answer| answer == b"yes"))
    }

    /// [`crate::Library::call`].
    pub(crate) fn call(&self, name: &str, operands: &[&[u8]], sizes: &[usize]) -> Result<Vec<Vec<u8>>, String> {
        let sizes_sent = message::of_sizes(sizes);
        let results = self.ask(&[&[CALL, name.as_bytes(), &sizes_sent], operands].concat())?;
        match results.iter().map(Vec::len).eq(sizes.iter().copied()) {
            true => Ok(results),
            false => Err("its process answers with results of other sizes".to_string()),
        }
    }
}

impl Inner {
    /// The answer to what was sent.
    fn answer(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let Some(Ok(mut parts)) = self.channel.as_mut().map(message::receive) else { return Err(self.ended()) };
        let verdict = if parts.is_empty() { Vec::new() } else { parts.remove(0) };
        match (verdict.as_slice(), parts.first()) {
            (DONE, _) => Ok(parts),
            (REFUSED, Some(why)) => Err(String::from_utf8_lossy(why).into_owned()),
            _ => Err("its process does not answer as one of these functions".to_string()),
        }
    }

    /// How the process ended that does not answer any more.
    fn ended(&mut self) -> String {
        self.channel = None;
        match self.child.wait() {
            Ok(status) => format!("its process has ended ({status})"),
            Err(e) => format!("its process is lost: {e}"),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The server ends when it reads the end of the channel; a function that never returns is ended.
        self.channel = None;
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What the program is that runs a library's functions: the library's file is its only argument, its standard input the channel of
/// the process that started it. Exit code 0 at the channel's end, 2 if it was started otherwise.
pub fn serve() -> ExitCode {
    match served(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("error: {why}\n"));
            ExitCode::from(2)
        }
    }
}

fn served(arguments: Vec<OsString>) -> Result<(), String> {
    let [library] = &arguments[..] else {
        return Err("this program is started by others, to run the functions of a shared library".to_string());
    };
    let mut channel = channel().map_err(|e| format!("standard input: {e}"))?;
    let loaded = Loaded::from(Path::new(library));
    let first: [&[u8]; 2] = match &loaded {
        Ok(_) => [DONE, b""],
        Err(why) => [REFUSED, why.as_bytes()],
    };
    message::send(&mut channel, &first).map_err(|e| format!("standard input: {e}"))?;
    let Ok(loaded) = loaded else { return Ok(()) };
    // The other side is gone, or does not listen: nobody is there to hear of it.
    while let Ok(request) = message::receive(&mut channel) {
        let answer = answer(&loaded, &request);
        let (verdict, parts) = match &answer {
            Ok(results) => (DONE, results.iter().map(Vec::as_slice).collect()),
            Err(why) => (REFUSED, vec![why.as_bytes()]),
        };
        if message::send(&mut channel, &[&[verdict], &parts[..]].concat()).is_err() {
            break;
        }
    }
    Ok(())
}

fn answer(loaded: &Loaded, request: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let parts: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    let name = |bytes| std::str::from_utf8(bytes).map_err(|e| e.to_string());
    match parts[..] {
        [HAS, function] => {
            Ok(vec![if loaded.function(name(function)?).is_ok() { b"yes".to_vec() } else { b"no".to_vec() }])
        }
        [CALL, function, sizes, ref operands @ ..] => loaded.call(name(function)?, operands, &message::sizes(sizes)),
        _ => Err("not a request".to_string()),
    }
}

/// The channel to the process that started this one. Standard input is empty afterwards: a library that reads it shall not take what is
/// meant for its functions.
#[allow(
    unsafe_code,
    reason = "the system's call that makes one descriptor mean another has no safe form in the standard library"
)]
fn channel() -> io::Result<UnixStream> {
    let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Fails for what is no socket.
    channel.peer_addr()?;
    let nothing = std::fs::File::open("/dev/null")?;
    // SAFETY: both descriptors are open; the standard library's standard input holds the number 0 alone, and nothing is read through it.
    match unsafe { libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(channel),
    }
}
