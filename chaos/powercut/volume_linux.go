package powercut

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// volumeBytes is the size of the file system; the image is sparse.
	volumeBytes = 4 << 30
	// commitEverySeconds keeps the journal from committing on its own within a campaign.
	commitEverySeconds = 300
	// ext4Shutdown is EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32).
	ext4Shutdown = 0x8004587d
	// noLogFlush is EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal gets what it has not written yet.
	noLogFlush = 2
)

// Journal modes of ext4.
const (
	Ordered   = "ordered"   // contents before the sizes that cover them
	Writeback = "writeback" // in any order
)

// Volume is a file system that can lose its power. Its methods are called from one goroutine.
type Volume struct {
	image string
	point string
}

// NewVolume makes an empty file system in dir and mounts it. Close takes it away.
func NewVolume(dir string) (*Volume, error) { return NewVolumeOf(dir, volumeBytes) }

// NewVolumeOf is NewVolume of so many bytes.
func NewVolumeOf(dir string, bytes int64) (*Volume, error) {
	volume := &Volume{image: filepath.Join(dir, "volume.img"), point: filepath.Join(dir, "volume")}
	file, err := os.Create(volume.image)
	if err != nil {
		return nil, fmt.Errorf("create image: %w", err)
	}
	err = errors.Join(file.Truncate(bytes), file.Close(), os.Mkdir(volume.point, 0o755))
	if err != nil {
		return nil, fmt.Errorf("prepare image: %w", err)
	}
	if err := command("mkfs.ext4", "-q", "-F", "-O", "^metadata_csum_seed", volume.image); err != nil {
		return nil, err
	}
	if err := volume.mount(Ordered); err != nil {
		return nil, err
	}
	return volume, nil
}

// Path is where the volume is mounted.
func (v *Volume) Path() string { return v.point }

// Darken stops every write to the device at once. What follows on the volume fails with EIO.
func (v *Volume) Darken() error {
	directory, err := os.Open(v.point)
	if err != nil {
		return fmt.Errorf("open volume: %w", err)
	}
	defer func() { _ = directory.Close() }()
	flags := uint32(noLogFlush)
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, directory.Fd(), ext4Shutdown, uintptr(unsafe.Pointer(&flags))); code != 0 {
		return fmt.Errorf("shut the volume down: %w", code)
	}
	return nil
}

// Lighten mounts the darkened volume again, as the next boot does. Nobody may have a file of it open.
func (v *Volume) Lighten(journal string) error {
	if err := v.unmount(); err != nil {
		return err
	}
	return v.mount(journal)
}

// Close unmounts the volume. The image stays for whoever removes the directory.
func (v *Volume) Close() error { return v.unmount() }

func (v *Volume) mount(journal string) error {
	return command("mount", "-o", fmt.Sprintf("loop,commit=%d,data=%s", commitEverySeconds, journal), v.image, v.point)
}

func (v *Volume) unmount() error { return command("umount", v.point) }

func command(name string, arguments ...string) error {
	if output, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, arguments, err, output)
	}
	return nil
}
