// Package node wires the parts of a node together: data directory, store, actors, log, HTTP. It is one straight list of
// steps up and one down (architecture 12, cluster 17).
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"queen/actors"
	"queen/cmd/queen/config"
	"queen/httpfront"
	"queen/httpfront/api"
	"queen/httpfront/api/history"
	"queen/httpfront/envelope"
	"queen/raftlog"
	"queen/raftlog/command"
	"queen/store"
)

// Node is a running node.
type Node struct {
	config    config.Config
	log       zerolog.Logger
	directory *directory
	port      *raftPort
	store     *store.Store
	broker    *actors.Broker
	raft      *raftlog.Node
	http      *httpfront.Server
	auth      *httpfront.Authenticator
	health    *health
	history   *history.Recorder
	disk      *diskGate
	keys      *envelope.Keyring
	stopTLS   context.CancelFunc

	// running ends when the node stops; background are the goroutines that it ends.
	running    context.Context
	endRunning context.CancelFunc
	background sync.WaitGroup
	// engine is held while store, broker and raft are put in place of others, and while the node stops; it guards what follows.
	engine     sync.Mutex
	installing bool
	halted     bool
	// failed has why the state stopped, until resumeOnSpace takes it.
	failed chan error
}

// Run starts a node, serves until ctx ends and stops it. hurry cuts the stop short (cluster 17.1: a second signal).
func Run(ctx context.Context, cfg config.Config, log zerolog.Logger, hurry <-chan struct{}) error {
	if err := checkSupported(&cfg); err != nil {
		return err
	}
	for _, name := range withoutEffect(&cfg) {
		log.Warn().Msg(name + ": has no effect in this build")
	}
	n := &Node{config: cfg, log: log, failed: make(chan error, 1)}
	n.running, n.endRunning = context.WithCancel(context.Background())
	if err := n.start(ctx); err != nil {
		stopErr := n.stop(closed())
		if ctx.Err() != nil {
			return stopErr // asked to stop before it was up
		}
		return errors.Join(err, stopErr)
	}
	<-ctx.Done()
	return n.stop(hurry)
}

func closed() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}

// start opens the port first: a node is live long before it is ready.
func (n *Node) start(ctx context.Context) error {
	n.health = newHealth(&n.config)
	n.engine.Lock()
	defer n.engine.Unlock()
	if err := n.take(ctx, []startStep{
		{"open data directory", n.openDirectory},
		{"open http port", n.openHTTP},
		{"find room on the data volume", n.findSpace},
		{"open identity", n.openIdentity},
		{"open raft port", n.openRaftPort},
		{"find the cluster", n.findCluster},
	}); err != nil {
		return err
	}
	n.keepReserve()
	n.background.Go(func() { n.resumeOnSpace(n.running) })
	switch err := n.openEngine(ctx); {
	case outOfSpace(err):
		n.log.Error().Err(err).Msg("this node waits for room on its data volume")
		n.broken(err)
		return nil
	case err != nil:
		return err
	}
	n.log.Info().Str("address", n.address()).Msg("serving")
	return nil
}

// startStep is one step of the start.
type startStep struct {
	name string
	run  func(context.Context) error
}

// take takes the steps up to the first that fails. Every step is logged with its milliseconds.
func (n *Node) take(ctx context.Context, steps []startStep) error {
	for _, step := range steps {
		began := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		n.log.Info().Str("step", step.name).Int64("ms", time.Since(began).Milliseconds()).Msg("start")
	}
	return nil
}

// engineSteps open what holds the state of the group; they are repeated when it is put in place of another one, or goes on.
func (n *Node) engineSteps() []startStep {
	return []startStep{
		{"finish installation", func(context.Context) error { return n.finishInstallation() }},
		{"open store", n.openStore},
		{"open log", n.openLog},
		{"open routes", n.openRoutes},
	}
}

func (n *Node) address() string {
	return net.JoinHostPort(n.config.BindAddress, strconv.Itoa(n.config.Port))
}

func (n *Node) openDirectory(context.Context) (err error) {
	n.directory, err = openDirectory(n.config.RaftDirectory)
	return err
}

func (n *Node) openIdentity(context.Context) (err error) {
	if n.port, err = openIdentity(&n.config); err != nil {
		return err
	}
	n.health.port.Store(n.port)
	return nil
}

func (n *Node) openRaftPort(context.Context) error {
	if err := n.port.open(n.log, n.health.handlers.PeerRefused); err != nil {
		return err
	}
	if n.port.admin != nil {
		n.port.admin.Handle(kindReport, n.health.answerReport)
		n.port.admin.Handle(kindReset, n.answerReset)
		n.health.admin.Store(n.port.admin)
		n.background.Go(func() { n.port.guard.run(n.running) })
		n.background.Go(func() { n.keepWitnesses(n.running) })
	}
	return nil
}

// findCluster forms a cluster, or finds that there is one. The first start of several nodes waits here for all of them.
func (n *Node) findCluster(ctx context.Context) error { return n.port.form(ctx, n.log) }

func (n *Node) openHTTP(context.Context) error {
	port, err := net.Listen("tcp", n.address())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	transport, err := n.certificate()
	if err != nil {
		return errors.Join(err, port.Close())
	}
	if n.config.JWTEnabled {
		if n.auth, err = httpfront.NewAuthenticator(authConfig(&n.config, n.log)); err != nil {
			return errors.Join(fmt.Errorf("set up authentication: %w", err), port.Close())
		}
	}
	n.http, err = httpfront.New(httpfront.Config{
		MaxBodyBytes: n.config.MaxBodyBytes,
		TLS:          transport,
		Tenancy:      n.config.TenancyHeader,
		Auth:         n.auth,
		AdmitBytes:   n.config.AdmitMaxBytes(),
		AdmitHold:    milliseconds(n.config.RaftAdmitHoldMs),
		Unavailable:  n.health.unavailable,
		Log:          n.log,
	})
	if err != nil {
		return errors.Join(err, port.Close())
	}
	n.disk = newDiskGate(&n.config, n.log)
	n.health.disk = n.disk
	settings := apiConfig(&n.config)
	if n.keys, err = keyring(&n.config); err != nil {
		return errors.Join(err, port.Close())
	}
	settings.Cipher = n.keys
	n.history = history.Open(historyOptions(&n.config, n.log))
	settings.History = n.history
	settings.Membership = n.membership
	handlers := api.New(settings, n.health, n.disk)
	n.health.handlers = handlers
	n.http.Handle(handlers.Routes(n.http))
	return n.http.Start(port)
}

func (n *Node) certificate() (*tls.Config, error) {
	if n.config.TLSCertFile == "" {
		return nil, nil
	}
	certificate, err := httpfront.LoadCertificate(n.config.TLSCertFile, n.config.TLSKeyFile, n.log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stopTLS = cancel
	go certificate.Watch(ctx)
	return certificate.Config(), nil
}

func (n *Node) openStore(context.Context) (err error) {
	if n.store, err = store.Open(n.storeOptions()); err != nil {
		return err
	}
	n.health.store.Store(n.store)
	if err := checkFormat(n.store); err != nil {
		return err
	}
	n.broker, err = actors.NewBroker(actors.Config{
		Store: n.store,
		Log:   n.log,
		Retention: actors.RetentionConfig{
			Interval:        milliseconds(n.config.RetentionIntervalMs),
			BatchAppends:    uint32(n.config.RetentionBatchSize),
			VisitPartitions: n.config.RetentionVisit,
		},
		IdleUnload:           seconds(n.config.ConsumeIdleUnloadSeconds),
		PopReplyMargin:       milliseconds(n.config.RaftPopReplyMarginMs),
		NoLeaderAfter:        milliseconds(n.config.RaftReadyQuorumMs),
		PartitionCleanupDays: cleanupDays(&n.config),
		TxidWindowMinSeconds: uint32(n.config.RaftTxnWindowMinSeconds),
		TraceRetention:       seconds(n.config.RaftTraceRetentionSeconds),
		KV: actors.KVConfig{
			SweepInterval: milliseconds(n.config.KVSweepMs), SweepRows: uint32(n.config.KVSweepLimit), RefuseApply: n.config.TestRefuseApplyKV,
		},
		Timers:       timersConfig(&n.config, n.keys),
		Observer:     n.health.handlers.Observer(),
		NoQuorumFail: milliseconds(n.config.RaftNoQuorumFailMs),
		QuorumAge:    n.health.quorumAge,
	})
	return err
}

func (n *Node) storeOptions() store.Options {
	return store.Options{
		Dir:          n.storeDirectory(),
		ReserveBytes: n.disk.ReserveBytes(),
		Faults:       faultPoints(n.config.TestFaults),
		Logger:       n.log,
	}
}

func (n *Node) openLog(context.Context) error {
	lastStamp, err := n.broker.LastStampMicros()
	if err != nil {
		return fmt.Errorf("read last stamp: %w", err)
	}
	options := raftlog.DefaultOptions(n.logDirectory(), uint64(n.config.RaftNodeID))
	options.ElectionMs = int(n.config.RaftElectionMs)
	options.HeartbeatMs = int(n.config.RaftHeartbeatMs)
	options.PipelineEntries = n.config.RaftPipeline
	options.BatchMaxCommands = n.config.RaftBatchMaxCommands
	options.BatchMaxBytes = int(n.config.RaftBatchMaxBytes)
	options.EntryMaxBytes = int(n.config.RaftEntryMaxBytes)
	options.CommandQueueDepth = n.config.RaftCommandQueueDepth
	options.DurableEveryMs = int(n.config.RaftDurableEveryMs)
	options.DurableBytes = n.config.RaftDurableBytes
	options.LogKeepEntries = uint64(n.config.RaftLogKeep)
	options.LogCacheBytes = n.config.RaftLogCacheMB << 20
	options.IdleTickMs = int(n.config.RaftIdleTickMs)
	options.LeaderLeaseMs = int(n.config.ConsumeLeaderLeaseMs)
	options.MaxClockSkewMs = int(n.config.RaftMaxClockSkewMs)
	options.Settings = command.Settings{
		TxidWindowMinSeconds:   uint32(n.config.RaftTxnWindowMinSeconds),
		RequestIDWindowSeconds: uint32(n.config.RaftRequestIDWindowSeconds),
	}
	options.Settings.PartitionCleanupDays = cleanupDays(&n.config)
	options.MaxEntryKeys, options.MaxEntryStateBytes = actors.MaxEntryKeys, actors.MaxEntryStateBytes
	options.LastStampMicros, options.NewestIndex = lastStamp, n.store.Newest()
	options.Logger = n.log
	options.Faults = faultPoints(n.config.TestFaults)
	options.Observer = n.health.handlers.Observer()
	options.Failed = n.engineFailed
	options.SlowCommand = milliseconds(n.config.RaftSlowCommandMs)
	options.ForwardStreams = n.config.RaftForwardStreams
	options.PurgeHoldSeconds = int(n.config.RaftPurgeHoldSeconds)
	options.Disk = n.disk.report
	options.DiskLowPercent = float64(n.config.RaftDiskLowPercent)
	options.Install, options.OpenState = n.offered, n.exportedState
	admit := &admitter{ask: n.http.AdmitForwarded, hold: milliseconds(n.config.RaftAdmitForwardHoldMs)}
	options.Admit = admit.admit
	options.Call, options.RidersFor = n.broker.ServeCall, n.ridersFor(n.broker)
	current := n.port.identity.Current()
	options.Incarnation, options.BootNonce, options.Witnesses = current.Incarnation, current.BootNonce, n.readWitnesses()
	n.port.apply(&options)
	n.port.broker.Store(n.broker) // before anybody is judged for a purpose of the log
	if n.raft, err = raftlog.Open(options, stateMachine{n.broker}); err != nil {
		return err
	}
	if err := n.port.began(n.raft); err != nil {
		return err
	}
	n.disk.follow(n.raft.DiskGate)
	n.broker.Start(logAdapter{n.raft})
	go tellOfLeadership(n.raft, n.broker)
	n.health.connect(n.raft)
	n.health.handlers.Connect(n.broker)
	n.startMembership()
	return nil
}

// ridersFor returns what serves parked pops in the entry of a push that another node has sent.
func (n *Node) ridersFor(broker *actors.Broker) func(encoded []byte) func() []raftlog.Proposal {
	return func(encoded []byte) func() []raftlog.Proposal {
		riders := broker.RidersFor(encoded)
		if riders == nil { // always so before the broker has started, when there is no log yet
			return nil
		}
		return logAdapter{n.raft}.riders(riders)
	}
}

// tellOfLeadership makes parked pops ask the leader that follows this node. It ends with the log.
func tellOfLeadership(log *raftlog.Node, broker *actors.Broker) {
	for range log.Leadership() {
		broker.LeadershipLost() // or won, when nobody is parked yet
	}
}

// openRoutes lets clients in. The only voter waits until it leads, which takes a moment; a member of a cluster answers for itself
// while there is no leader.
func (n *Node) openRoutes(ctx context.Context) error {
	if n.port.network == nil {
		if _, err := (logAdapter{n.raft}).ReadIndex(ctx); err != nil {
			return err
		}
	}
	// In this order: who has seen a ready /health sends its requests at once.
	n.http.Open()
	n.health.ready.Store(true)
	return nil
}
