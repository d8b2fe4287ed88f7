package main

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"parley/cmd/parley/config"
	"parley/cmd/parley/node"
)

// inProcess is a whole node in the process of the tests: what serve runs, without the process around it.
type inProcess struct {
	stop  context.CancelFunc
	ended chan error
}

// startWithin starts a node with p's configuration in this process, and waits until it is ready.
func (p *process) startWithin() *inProcess {
	p.t.Helper()
	p.log = &processLog{}
	request, err := config.Load([]string{
		"--config", p.config, "--data-dir", p.dir, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", patientCancel,
		"--storage-memtable=4MiB", "--shutdown-grace=100ms", // tens of them share the memory, and end together
	}, nil)
	require.NoError(p.t, err)
	request.Config.Accounts.HashCost = bcrypt.MinCost // a test of accounts makes hundreds of hashes
	ctx, stop := context.WithCancel(context.Background())
	n := &inProcess{stop: stop, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		n.ended <- node.Run(ctx, request.Config, newLogger(p.log, request.Config.Log), func(started *node.Node) {
			p.listen, p.ops = started.Addr().String(), started.OpsAddr().String()
			close(ready)
		})
	}()
	select {
	case <-ready:
	case err := <-n.ended:
		stop()
		require.Failf(p.t, "node ended", "%v: %s", err, keptLog(p.t.Name(), p.log.String()))
	case <-time.After(time.Minute):
		stop()
		require.Fail(p.t, "node is not ready after a minute")
	}
	require.NoError(p.t, p.awaitReady())
	return n
}
