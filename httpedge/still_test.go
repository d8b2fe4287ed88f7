package httpedge_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/failurepb"
)

// doorkeeper lets everybody in, and may have second thoughts.
type doorkeeper struct {
	endpoint.Authenticator

	closed atomic.Bool
}

func (d *doorkeeper) Watch(endpoint.Caller, *endpoint.Route) func() *machine.Failure {
	return func() *machine.Failure {
		if d.closed.Load() {
			return failure.Verbatim(failurepb.Code_AUTH_REQUIRED, "no more")
		}
		return nil
	}
}

// A request that takes long ends once its caller would not be let in any more; a stream's receiver is told how to ask.
func TestWhoIsNotLetInAnyMore(t *testing.T) {
	door := &doorkeeper{Authenticator: endpointtest.Authenticate(endpointtest.Off)}
	b := serve(t, func(config *httpedge.Config, parts *httpedge.Parts) {
		config.RecheckEvery = time.Millisecond
		parts.Authenticator = door
	})
	long, short := b.dial().send(get("/desk/long")), b.dial().send(get("/desk/wait"))
	b.dial().send(get("/desk/stream"))
	<-b.desk.entered
	<-b.desk.entered
	take := <-b.desk.streams
	defer func() {
		_ = take.Conn.Close()
		take.Release()
	}()
	require.Nil(t, take.Still())
	door.closed.Store(true)
	require.Equal(t, "no more", take.Still().DefaultText())
	a := long.answer()
	require.Equal(t, 401, a.status)
	require.Equal(t, "AUTH_REQUIRED", a.body["code"])
	b.desk.release <- struct{}{}
	require.Equal(t, 204, short.answer().status, "it is bounded as it is")
	t.Run("and_stays_where_it_may", func(t *testing.T) {
		door.closed.Store(false)
		waits := b.dial().send(get("/desk/long"))
		<-b.desk.entered
		b.desk.release <- struct{}{}
		require.Equal(t, 204, waits.answer().status)
	})
}
