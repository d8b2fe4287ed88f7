package node

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"parley/cluster/certs"
	"parley/cluster/peer"
	"parley/cmd/parley/config"
)

// network is what a node listens on and how it reaches other nodes.
type network struct {
	listener, opsListener net.Listener
	serverTLS, clientTLS  *tls.Config   // between nodes; nil = unencrypted
	dial                  peer.DialFunc // nil = TCP
}

// listen binds both addresses before anything is opened: a taken port is the commonest mistake.
func (n *Node) listen(ctx context.Context) error {
	var listen net.ListenConfig
	var err error
	if n.network.listener, err = listen.Listen(ctx, "tcp", n.config.Listen); err != nil {
		return err
	}
	if n.network.opsListener, err = listen.Listen(ctx, "tcp", n.config.OpsListen); err != nil {
		return errors.Join(err, n.network.listener.Close())
	}
	n.later(func(context.Context) {
		// Each server closes its own listener; this is for those that were never started.
		_ = n.network.listener.Close()
		_ = n.network.opsListener.Close()
	})
	return nil
}

// loadSecrets reads the certificates for connections between nodes and returns the key of the gossip; nil = unencrypted.
func (w *network) loadSecrets(c *config.Cluster) (gossipKey []byte, err error) {
	if c.Secured() {
		if w.serverTLS, w.clientTLS, err = certs.Load(c.TLSCert, c.TLSKey, c.TLSCA); err != nil {
			return nil, err
		}
	}
	switch {
	case c.GossipKey != "":
		return config.DecodeGossipKey(c.GossipKey.Reveal())
	case c.GossipKeyFile != "":
		return certs.GossipKey(c.GossipKeyFile)
	}
	return nil, nil
}
