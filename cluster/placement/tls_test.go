package placement

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"parley/actors/core/follow"
	"parley/cluster/certs"
)

func testTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, certs.Write(dir, []string{"n"}, nil, time.Hour))
	server, client, err := certs.Load(filepath.Join(dir, "n.pem"), filepath.Join(dir, "n-key.pem"), filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	return server, client
}

func TestMutualTLS(t *testing.T) {
	server, client := testTLS(t)
	w, a, b, to := pair(t, secured(server, client))
	_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.NoError(t, err)

	// Somebody with certificates of another authority, and somebody without any.
	foreign := w.start("foreign", secured(testTLS(t)))
	open := w.start("open")
	for _, stranger := range []*node{foreign, open} {
		to.Node = stranger.member.Name
		_, err = a.Ask(t.Context(), to, "conv_1", command("hello"))
		require.True(t, follow.IsNotOwner(err))
		to.Node = "b"
		_, err = stranger.Ask(t.Context(), to, "conv_1", command("hello"))
		require.True(t, follow.IsNotOwner(err))
		require.Zero(t, stranger.shell.asked.Load())
	}
	require.EqualValues(t, 1, b.shell.asked.Load())

	// The engine's protocol, spoken by somebody without a certificate.
	conn, err := grpc.NewClient(b.member.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = remote.NewRemotingClient(conn).ListProcesses(ctx, &remote.ListProcessesRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
}

// TestBadRequestsDoNotEndTheProcess speaks the engine's protocol as an incompatible or confused node would.
func TestBadRequestsDoNotEndTheProcess(t *testing.T) {
	_, a, b, to := pair(t)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", b.member.Address)
		}))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	client := remote.NewRemotingClient(conn)

	_, err = client.ListProcesses(t.Context(), &remote.ListProcessesRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	_, err = client.GetProcessDiagnostics(t.Context(), &remote.GetProcessDiagnosticsRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))

	send := func(target *actor.PID, typeName string, data []byte) error {
		stream, failed := client.Receive(t.Context())
		require.NoError(t, failed)
		require.NoError(t, stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: &remote.MessageBatch{
			TypeNames: []string{typeName}, Targets: []*actor.PID{target},
			Envelopes: []*remote.MessageEnvelope{{MessageData: data}},
		}}}))
		require.NoError(t, stream.CloseSend())
		_, failed = stream.Recv()
		return failed
	}
	own := b.engine.actors.Address()
	require.Equal(t, codes.Internal, status.Code(send(actor.NewPID(own, "s1"), "parley.node.Future", nil)), "a type it does not know")
	for _, target := range []*actor.PID{
		actor.NewPID(own, "s1"), actor.NewPID(own, nodeTarget), actor.NewPID(own, "nobody"),
		actor.NewPID("elsewhere-b0:1", "s1"), // meant for another node: not to be passed on
	} {
		_ = send(target, "parley.node.Envelope", nil)
		_ = send(target, "parley.node.Envelope", []byte{0xff})
		_ = send(target, "parley.node.Hello", nil)
	}
	_, err = a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.NoError(t, err)
	require.Positive(t, dropped(b))
}
