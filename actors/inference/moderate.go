package inference

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/turn/model"
)

// Moderate asks a model of category moderation and returns the JSON of its answer (document 3, 10.8). The error is as Chat's.
func (c *Caller) Moderate(ctx context.Context, call *Call) ([]byte, error) {
	leave, t, refused := c.open(call, ServiceModerations, "moderation")
	if refused != nil {
		return nil, refused
	}
	defer leave()
	if !t.relayed() {
		return nil, invalid("model", "the provider of this model makes no moderations")
	}
	return c.whole(ctx, call, t, c.moderate)
}

func (c *Caller) moderate(ctx context.Context, call *Call, t *target, used *consumed) ([]byte, error) {
	address, err := model.OpenAIURL(t.model, "/moderations")
	if err != nil {
		return nil, badAddress(err)
	}
	body := listed(t, call, moderateFields).finish(call)
	var id, results []byte
	err = c.attempts(ctx, t, provider.Moderation, func(ctx context.Context) error {
		fields, failed := c.fetchObject(ctx, t, address, body)
		if failed != nil {
			return failed
		}
		if id = fields.Get("id"); len(id) < 3 || id[0] != '"' {
			id = newModerationID()
		}
		if results = fields.Get("results"); results == nil {
			return unreadable()
		}
		*used = readUsage(fields.Get("usage")) // most are free and say nothing
		return nil
	})
	if err != nil {
		return nil, err
	}
	used.guess(call, 0)
	dst := append(append(make([]byte, 0, len(results)+256), `{"id":`...), id...)
	dst = rawjson.AppendString(append(dst, `,"model":`...), call.Model)
	dst = append(append(dst, `,"results":`...), results...)
	return append(dst, '}'), nil
}

func newModerationID() []byte {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails, it ends the process instead
	return []byte(`"modr_` + hex.EncodeToString(random[:]) + `"`)
}
