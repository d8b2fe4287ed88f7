package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"parley/actors/core/identity"
	"parley/httpedge/password"
)

// bootstrapTimeout bounds an attempt to create the first tenant.
const bootstrapTimeout = 30 * time.Second

// startBootstrap creates the first tenant: on a single node before it serves, in a cluster as soon as the directory can be written.
func (n *Node) startBootstrap(ctx context.Context) error {
	b := &identity.Bootstrap{Accounts: n.directory.accounts.Load(), Token: n.config.BootstrapToken.Reveal(), Tier: n.config.Client.License}
	if a := &n.config.Accounts; a.BootstrapCompany != "" {
		b.Owner = &identity.Registration{
			Company: a.BootstrapCompany, Name: a.BootstrapName, Email: a.BootstrapEmail, Password: a.BootstrapPassword.Reveal(),
		}
		if err := b.Owner.Check(); err != nil {
			return fmt.Errorf("accounts.bootstrap_*: %w", err)
		}
		b.Hash = password.New(password.DefaultConfig(), n.log).Hash
	}
	if n.links == nil {
		bounded, cancel := context.WithTimeout(ctx, bootstrapTimeout)
		defer cancel()
		shown, err := b.Run(bounded)
		n.firstToken.created(shown)
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	n.later(func(context.Context) { end(); <-done })
	go func() {
		defer close(done)
		n.bootstrapUntilDone(life, b)
	}()
	return nil
}

func (n *Node) bootstrapUntilDone(ctx context.Context, b *identity.Bootstrap) {
	const first, last = 50 * time.Millisecond, 5 * time.Second
	for pause := first; ; pause = min(2*pause, last) {
		attempt, cancel := context.WithTimeout(ctx, bootstrapTimeout)
		shown, err := b.Run(attempt)
		cancel()
		if err == nil {
			n.firstToken.created(shown)
			return
		}
		if ctx.Err() != nil {
			return
		}
		n.log.Debug("the first tenant cannot be created yet", slog.Any("err", err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// firstToken is the API token that this start has created, until it is shown.
type firstToken struct {
	mu     sync.Mutex
	secret string
	show   func(secret string) // nil = nobody shows it yet
}

// FirstToken calls show with the API token that this start creates, if it creates one: it is stored nowhere in clear text.
func (n *Node) FirstToken(show func(secret string)) {
	f := &n.firstToken
	f.mu.Lock()
	made := f.secret
	f.show, f.secret = show, ""
	f.mu.Unlock()
	if made != "" {
		show(made)
	}
}

// created shows a new token, or keeps it until somebody does.
func (f *firstToken) created(secret string) {
	if secret == "" {
		return
	}
	f.mu.Lock()
	show := f.show
	if show == nil {
		f.secret = secret
	}
	f.mu.Unlock()
	if show != nil {
		show(secret)
	}
}
