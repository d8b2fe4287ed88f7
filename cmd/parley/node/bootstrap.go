package node

import (
	"context"
	"log/slog"
	"time"

	"parley/actors/core/identity"
)

// bootstrapTimeout bounds an attempt to create the first tenant.
const bootstrapTimeout = 30 * time.Second

// startBootstrap creates the first tenant. A node that is alone has it before it serves; one of a cluster as soon as the
// directory can be written.
func (n *Node) startBootstrap(ctx context.Context) error {
	b := &identity.Bootstrap{Accounts: n.accounts.Load(), Token: n.config.BootstrapToken.Reveal(), Tier: n.config.Client.License}
	if n.links == nil {
		bounded, cancel := context.WithTimeout(ctx, bootstrapTimeout)
		defer cancel()
		shown, err := b.Run(bounded)
		n.show(shown)
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
			n.show(shown)
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

// FirstToken hands the API token that this start makes, if it makes one, to whoever shows it: nobody knows it afterwards.
func (n *Node) FirstToken(show func(secret string)) {
	n.mu.Lock()
	made := n.firstToken
	n.showToken, n.firstToken = show, ""
	n.mu.Unlock()
	if made != "" {
		show(made)
	}
}

// show hands a token that was made to whoever wants to show it, or keeps it until somebody does.
func (n *Node) show(made string) {
	if made == "" {
		return
	}
	n.mu.Lock()
	show := n.showToken
	if show == nil {
		n.firstToken = made
	}
	n.mu.Unlock()
	if show != nil {
		show(made)
	}
}
