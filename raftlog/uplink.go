package raftlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog/command"
	"queen/raftlog/link"
)

const (
	// dialTimeout is how long the leader may take to accept a link.
	dialTimeout = time.Second
	// redialPause is how long an uplink waits after it could not reach the leader, or was told that it is none.
	redialPause = 20 * time.Millisecond
)

// uplink keeps links to the leader of the group while that is another node, and gives them away for commands, calls and
// reads. One goroutine makes and ends them.
type uplink struct {
	network Network
	streams int
	logger  zerolog.Logger
	// leader returns the node that leads; 0 while none is known or it is this one.
	leader func() uint64
	// forward sends what waits over the links; called when there are links, and whenever more may wait.
	forward func(*uplinks)
	// lost takes back what was sent: the links have ended.
	lost func()
	// refused is told of a command that the leader will not propose.
	refused link.Refused
	counts  *forwardCounts

	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	current *uplinks
	// changed is closed and replaced when current changes.
	changed chan struct{}
}

// uplinks are the links to one leader.
type uplinks struct {
	leader   uint64
	commands []*link.Client
	reads    *link.Client
	counts   *forwardCounts
	// broken is closed when one of them has ended; the others end with it.
	broken chan struct{}
	broke  sync.Once
}

func (u *uplink) signal() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// run follows the leader until stop is closed.
func (u *uplink) run() {
	defer close(u.done)
	defer u.drop()
	again := time.NewTimer(redialPause)
	defer again.Stop()
	for {
		u.follow()
		var broken chan struct{}
		if links := u.links(); links != nil {
			broken = links.broken
		}
		again.Reset(redialPause)
		retry := again.C
		if broken != nil || u.leader() == 0 {
			retry = nil
		}
		select {
		case <-u.stop:
			return
		case <-u.wake:
		case <-broken:
			u.drop()
			u.pause()
		case <-retry:
		}
	}
}

// pause waits before the leader is tried again.
func (u *uplink) pause() {
	select {
	case <-time.After(redialPause):
	case <-u.stop:
	}
}

// follow makes the links fit the leader, and lets what waits go.
func (u *uplink) follow() {
	leader, links := u.leader(), u.links()
	if links != nil && links.leader != leader {
		u.drop()
		links = nil
	}
	if links == nil && leader != 0 {
		var err error
		if links, err = u.dial(leader); err != nil {
			u.logger.Debug().Err(err).Uint64("node", leader).Msg("raft: the leader cannot be reached")
			return
		}
		u.set(links)
	}
	if links != nil {
		u.forward(links)
	}
}

// dial opens all links at the same time: one after the other they take so many round trips that a leader which is far away, or has
// much to do, would never be reached in time.
func (u *uplink) dial(leader uint64) (*uplinks, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	purpose := func(i int) Purpose {
		if i == u.streams {
			return PurposeRead
		}
		return PurposeCommand
	}
	conns, failures := make([]net.Conn, u.streams+1), make([]error, u.streams+1)
	var dialing sync.WaitGroup
	for i := range conns {
		dialing.Go(func() { conns[i], failures[i] = u.network.Dial(ctx, leader, purpose(i)) })
	}
	dialing.Wait()
	links := &uplinks{leader: leader, counts: u.counts, broken: make(chan struct{})}
	for i, conn := range conns {
		if failures[i] == nil {
			links.add(purpose(i), conn, u.refused)
		}
	}
	if failure := cmp.Or(failures...); failure != nil {
		links.close()
		return nil, fmt.Errorf("dial leader: %w", failure)
	}
	u.counts.streams.Add(uint64(u.streams))
	return links, nil
}

func (l *uplinks) add(purpose Purpose, conn net.Conn, refused link.Refused) {
	client := link.NewClient(conn, refused)
	if purpose == PurposeRead {
		l.reads = client
	} else {
		l.commands = append(l.commands, client)
	}
	go func() { // ends with the link
		<-client.Done()
		l.end()
	}()
}

// end makes the uplink drop the links.
func (l *uplinks) end() { l.broke.Do(func() { close(l.broken) }) }

func (l *uplinks) close() {
	for _, client := range l.commands {
		client.Close()
	}
	if l.reads != nil {
		l.reads.Close()
	}
}

// command sends a command over the stream that its number chooses.
func (l *uplinks) command(c *link.Command) bool {
	return l.commands[c.ID.Sequence%uint64(len(l.commands))].Send(c)
}

func (u *uplink) links() *uplinks {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.current
}

func (u *uplink) set(links *uplinks) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current = links
	close(u.changed)
	u.changed = make(chan struct{})
}

// drop ends the links and takes back what was sent over them.
func (u *uplink) drop() {
	links := u.links()
	if links == nil {
		return
	}
	u.set(nil)
	links.close()
	u.lost()
}

// close ends the goroutine and the links.
func (u *uplink) close() {
	close(u.stop)
	<-u.done
}

// await returns the links to the leader, as soon as there are some. The error wraps ErrNoLeader when ctx ends before.
func (u *uplink) await(ctx context.Context, changes <-chan struct{}) (*uplinks, error) {
	for {
		u.mu.Lock()
		links, changed := u.current, u.changed
		u.mu.Unlock()
		if links != nil {
			return links, nil
		}
		select {
		case <-changed:
		case <-changes:
			return nil, ErrNotLeader
		case <-u.stop:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, errors.Join(ErrNoLeader, context.Cause(ctx))
		}
	}
}

// answerOf tells an error of a call in the words of this package. Whatever says that the leader is another one ends the links:
// the next ones may go elsewhere.
func (l *uplinks) answerOf(err error) error {
	var failure *link.Failure
	switch {
	case err == nil:
		return nil
	case errors.Is(err, link.ErrBroken):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.As(err, &failure):
		if failure.Reason == link.Text {
			return err
		}
		known := errorOf(failure.Reason)
		if elsewhere(known) {
			l.end()
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
		return fmt.Errorf("%w: %w", known, err)
	}
	return err
}

// callWait is how long a call waits for links to a leader.
const callWait = time.Second

// CallLeader sends a request to the machine of the leader, see Options.Call, and returns its answer. ErrNotLeader: this node
// leads itself, or the leader changed meanwhile: ask again. ErrNoLeader: none was known within a second, or until ctx ended.
func (n *Node) CallLeader(ctx context.Context, request []byte) ([]byte, error) {
	term, _, changed, closed := n.proposer.leadership()
	switch {
	case closed != nil:
		return nil, closed
	case term != 0:
		return nil, ErrNotLeader
	case n.uplink == nil:
		return nil, ErrNoLeader
	}
	waiting, cancel := context.WithTimeout(ctx, callWait)
	links, err := n.uplink.await(waiting, changed)
	cancel()
	if err != nil {
		return nil, err
	}
	answer, err := links.commands[0].Call(ctx, request)
	return answer, links.answerOf(err)
}

// Settled tells that the command with this request id of this node has been applied here, so that it is not sent to a later
// leader. The apply goroutine calls it.
func (n *Node) Settled(id command.RequestID) {
	if n.uplink != nil {
		n.proposer.settled(id)
	}
}
