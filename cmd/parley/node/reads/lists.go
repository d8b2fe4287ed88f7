package reads

import (
	"context"
	"errors"

	"parley/actors/kit"
	"parley/httpedge/endpoint"
	"parley/persistence"
)

// listed reads a list from this node's store if that holds all shards, else from the owners of the shards.
func listed[P any](ctx context.Context, r Route, list func(ctx context.Context, from kit.Lists) (P, error)) (P, error) {
	if endpoint.StaleAllowed(ctx) && r.holdsAll(r.Local.Hosts) {
		endpoint.ServedStale(ctx)
		return list(persistence.WithStale(ctx), localRows{r.Local})
	}
	if r.holdsAll(r.owns) {
		page, err := list(ctx, localRows{r.Local})
		if !errors.Is(err, persistence.ErrNotLeader) {
			return page, err
		}
	}
	return list(ctx, scatteredRows{r})
}
