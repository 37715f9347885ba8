//! How processes of this program talk to each other about a program that one of them runs: in frames (a kind, a length, and
//! so many bytes), and by passing descriptors.
//!
//! Used by `container` and `sandbox`. Must never believe a frame of an unknown kind or length.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// What a frame is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Start a program (to the helper).
    Start = 1,
    /// A piece of its standard input.
    Input,
    EndOfInput,
    /// Send SIGTERM to everything that runs.
    Terminate,
    /// A piece of its standard output (from the helper).
    Output,
    /// A piece of its standard error.
    Errors,
    /// It has ended, and with it everything that it started.
    Ended,
}

/// Maximum size of a frame: arguments and variables of a program are far smaller.
const MAX_FRAME_BYTES: u32 = 16 << 20;
const KINDS: [Kind; 7] =
    [Kind::Start, Kind::Input, Kind::EndOfInput, Kind::Terminate, Kind::Output, Kind::Errors, Kind::Ended];

/// Writes a frame in one piece.
pub fn write(to: &mut impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| io::Error::other("too much for one frame"))?;
    let mut frame = Vec::with_capacity(bytes.len() + 5);
    frame.push(kind as u8);
    frame.extend(length.to_be_bytes());
    frame.extend(bytes);
    to.write_all(&frame)?;
    to.flush()
}

/// Reads a frame. The end of the stream is an error.
pub fn read(from: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let kind = KINDS.into_iter().find(|known| *known as u8 == kind);
    let length = u32::from_be_bytes(length);
    let (Some(kind), 0..=MAX_FRAME_BYTES) = (kind, length) else { return Err(io::ErrorKind::InvalidData.into()) };
    let mut bytes = Vec::new();
    if from.take(length.into()).read_to_end(&mut bytes)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, bytes))
}

/// Maximum number of descriptors in a message.
const MAX_DESCRIPTORS: usize = 4;

/// Keeps received descriptors from being inherited.
#[cfg(target_os = "linux")]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
/// The system has no such flag.
#[cfg(not(target_os = "linux"))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

/// Sends descriptors with a message, which must not be empty.
pub fn send_descriptors(
    socket: impl AsFd,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
    wait: bool,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = if wait { SendFlags::empty() } else { SendFlags::DONTWAIT };
    sendmsg(socket, &[IoSlice::new(message)], &mut control, flags)?;
    Ok(())
}

/// Receives a message into the buffer, and returns its length and the descriptors that came with it.
pub fn receive_descriptors(socket: impl AsFd, message: &mut [u8], wait: bool) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = if wait { CLOSE_ON_EXEC } else { CLOSE_ON_EXEC | RecvFlags::DONTWAIT };
    let received = recvmsg(socket, &mut [IoSliceMut::new(message)], &mut control, flags)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, descriptors.flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut stream = Vec::new();
        for kind in KINDS {
            write(&mut stream, kind, format!("{kind:?}").as_bytes()).unwrap();
        }
        let mut reader = stream.as_slice();
        for kind in KINDS {
            assert_eq!(read(&mut reader).unwrap(), (kind, format!("{kind:?}").into_bytes()));
        }
        assert_eq!(read(&mut reader).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for bytes in [&[0, 0, 0, 0, 0][..], &[8, 0, 0, 0, 0], &[1, 255, 255, 255, 255], &[1, 0, 0, 0, 2, 7], &[1, 0]] {
            assert!(read(&mut &*bytes).is_err(), "{bytes:?}");
        }
        assert!(write(&mut Vec::new(), Kind::Input, &vec![0; 17 << 20]).is_err());
    }
}
