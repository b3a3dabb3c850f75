// Package powercut takes the power from a running broker: what it has not fsynced is gone, what it has is there.
//
// The data directory stands on an ext4 file system of its own, in an image file behind a loop device. The cut is the
// kernel's own: EXT4_IOC_SHUTDOWN without a log flush stops every write to the device at one instant, dirty pages and
// the open journal transaction included; then the process is killed, the file system unmounted and mounted again,
// which replays the journal as after a real loss of power. The journal commits by itself only every five minutes, so
// nothing reaches the disk by the passing of time.
//
// A real machine also writes some pages back that nobody asked it to. Writeback does that here: it starts the
// write-out of random ranges of random files, so that files meet the cut with any mixture of old and new pages. The
// journal mode differs from cut to cut: with data=writeback, sizes may be on disk before contents.
//
// What this cannot show: ext4 commits the names of all new files with any fsync, so a missing fsync of a directory
// stays hidden, and the image's own cache is not torn.
//
// It needs root, loop devices and mkfs.ext4, so its campaign is compiled only with the build tag powercut.
package powercut
