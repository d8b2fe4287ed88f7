package placement

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	actorcluster "github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"parley/proto/nodepb"
)

// engine is protoactor with the settings and replacements that cluster/DESIGN.md explains.
type engine struct {
	system   *System
	actors   *actor.ActorSystem
	cluster  *actorcluster.Cluster
	provider *provider
	port     int
}

// nodeTarget is the id of the process that takes messages that concern no shard.
const nodeTarget = "node"

// wireBytes bounds one gRPC message, which carries a whole batch of ours: more than all that may be queued.
func (e *engine) wireBytes() int {
	return e.system.config.QueueBytes + e.system.config.MessageBytes + 16<<20
}

func newEngine(s *System) (*engine, error) {
	host, port, err := splitAddress(s.config.Listen)
	if err != nil {
		return nil, err
	}
	e := &engine{system: s, port: port}
	e.actors = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet(s.log) }),
		actor.WithDeadLetterRequestLogging(false),
	)
	e.actors.ID = s.host // unique per start: the engine never takes an id back that was gone once
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // the engine only puts a colon between
	}
	rc := remote.Configure(host, port)
	// The address that others know is virtual: it names the start of this process, so nothing that was meant for a
	// former one ever arrives, and nobody dials one that is gone.
	rc.AdvertisedHost = net.JoinHostPort(s.host, strconv.Itoa(port))
	rc.EndpointWriterBatchSize = 256
	rc.EndpointWriterQueueSize = 1024
	rc.MaxRetryCount = 1
	rc.DialOptions = e.dialOptions()
	rc.ServerOptions = e.serverOptions()
	e.provider = &provider{engine: e, present: map[string]string{}, gone: map[string]int{}}
	cc := actorcluster.Configure(s.config.Cluster, e.provider, &lookup{engine: e}, rc)
	cc.ClusterContextProducer = func(*actorcluster.Cluster) actorcluster.Context { return &requests{system: s} }
	e.cluster = actorcluster.New(e.actors, cc)
	return e, nil
}

func (e *engine) dialOptions() []grpc.DialOption {
	secured := insecure.NewCredentials()
	if e.system.config.ClientTLS != nil {
		secured = credentials.NewTLS(e.system.config.ClientTLS)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(secured),
		grpc.WithContextDialer(e.system.dial),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true}),
		grpc.WithInitialWindowSize(4 << 20),
		grpc.WithInitialConnWindowSize(8 << 20),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(e.wireBytes()), grpc.MaxCallSendMsgSize(e.wireBytes())),
	}
}

func (e *engine) serverOptions() []grpc.ServerOption {
	secured := insecure.NewCredentials()
	if e.system.config.ServerTLS != nil {
		secured = credentials.NewTLS(e.system.config.ServerTLS)
	}
	return []grpc.ServerOption{
		grpc.Creds(secured),
		grpc.MaxRecvMsgSize(e.wireBytes()),
		grpc.MaxSendMsgSize(e.wireBytes()),
		grpc.InitialWindowSize(4 << 20),
		grpc.InitialConnWindowSize(8 << 20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.StreamInterceptor(guardStream),
		grpc.UnaryInterceptor(refuseUnary),
	}
}

// guardStream recovers from panics of the engine, which does not validate what another node sends.
func guardStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = status.Errorf(codes.Internal, "message not understood: %v", r)
		}
	}()
	return handler(server, &greetedStream{ServerStream: stream})
}

// refuseUnary refuses the engine's diagnostics, which are not implemented: a call would end the process.
func refuseUnary(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return nil, status.Error(codes.Unimplemented, "not served")
}

// greetedStream answers the engine's greeting itself. The engine would compare the sender with a list of members that
// were gone once, unguarded; who may connect is decided by TLS, and whose messages count by the list of members.
type greetedStream struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (g *greetedStream) RecvMsg(into any) error {
	for {
		if err := g.ServerStream.RecvMsg(into); err != nil {
			return err
		}
		message, ok := into.(*remote.RemoteMessage)
		if !ok || message.GetConnectRequest() == nil {
			return nil
		}
		err := g.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectResponse{
			ConnectResponse: &remote.ConnectResponse{},
		}})
		if err != nil {
			return err
		}
	}
}

// start does what Cluster.StartMember does, in its order, but for the engine's gossip and publish-subscribe, which are
// not used, and for a pause of a second at the end. The engine panics where others return an error.
func (e *engine) start() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("placement: start: %v", r)
		}
	}()
	e.actors.ProcessRegistry.RegisterAddressResolver(e.resolve)
	e.actors.EventStream.Subscribe(func(event any) {
		if terminated, ok := event.(*remote.EndpointTerminatedEvent); ok {
			e.system.disconnected(terminated.Address)
		}
	})
	e.cluster.Remote = remote.NewRemote(e.actors, e.cluster.Config.RemoteConfig)
	e.cluster.Remote.Start()
	e.cluster.IdentityLookup = e.cluster.Config.IdentityLookup
	e.cluster.IdentityLookup.Setup(e.cluster, nil, false)
	for in := range uint32(e.system.config.Shards.Count()) + 1 {
		g := &gate{system: e.system, shard: in}
		if _, err := e.actors.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return g }), gateOf(in)); err != nil {
			return fmt.Errorf("placement: spawn gate: %w", err)
		}
	}
	// Last, because a node that is answered by this process may use the gates.
	e.actors.ProcessRegistry.Add(&nodeProcess{system: e.system}, nodeTarget)
	return e.provider.StartMember(e.cluster)
}

func (e *engine) stop() {
	e.actors.Shutdown()
	e.cluster.Remote.Shutdown(false)
}

// publishTerminated has the engine forget a connection.
func (e *engine) publishTerminated(target string) {
	e.actors.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: target})
}

// send queues an envelope for the connection to an address.
func (e *engine) send(target, process string, p *queuedEnvelope) {
	e.cluster.Remote.SendMessage(actor.NewPID(target, process), nil, p, nil, -1)
}

// resolve finds the processes for what arrives: a sender numbers its connections in the address. What was meant for
// another node, or for a former start of this one, must not be passed on.
func (e *engine) resolve(pid *actor.PID) (actor.Process, bool) {
	if strings.HasPrefix(pid.GetAddress(), e.system.host+"-") {
		return e.actors.ProcessRegistry.GetLocal(pid.GetId())
	}
	e.system.metrics.dropped.Inc()
	return nowhere{}, true
}

// nowhere is a process that discards everything.
type nowhere struct{}

// SendUserMessage implements actor.Process.
func (nowhere) SendUserMessage(*actor.PID, any) {}

// SendSystemMessage implements actor.Process.
func (nowhere) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (nowhere) Stop(*actor.PID) {}

// nodeProcess takes messages that concern no shard, on the goroutine of the connection they arrived on.
type nodeProcess struct{ system *System }

// SendUserMessage implements actor.Process.
func (d *nodeProcess) SendUserMessage(_ *actor.PID, message any) {
	if envelope, ok := actor.UnwrapEnvelopeMessage(message).(*nodepb.Envelope); ok {
		d.system.receive(envelope, nil)
	}
}

// SendSystemMessage implements actor.Process.
func (d *nodeProcess) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (d *nodeProcess) Stop(*actor.PID) {}

// queuedEnvelope is an envelope in the engine's queue, which has no bound of its own. It notes when it leaves the queue.
type queuedEnvelope struct {
	*nodepb.Envelope
	queued *atomic.Int64
	size   int64
}

// Serialize implements remote.RootSerializable. The engine calls it when it takes the message from the queue.
func (p *queuedEnvelope) Serialize() (remote.RootSerialized, error) {
	p.queued.Add(-p.size)
	return p, nil
}

// Deserialize implements remote.RootSerialized.
func (p *queuedEnvelope) Deserialize() (remote.RootSerializable, error) { return p, nil }

// quiet forwards warnings and errors at debug level, because the engine logs expected events as errors.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(quietHandler{log.Handler()}) }

type quietHandler struct{ slog.Handler }

// Enabled is part of slog.Handler.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle is part of slog.Handler.
func (h quietHandler) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, record) //nolint:wrapcheck // a handler in between
}

// WithAttrs is part of slog.Handler.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup is part of slog.Handler.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
