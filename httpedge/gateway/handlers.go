package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"

	"parley/actors/core/moderate"
	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint"
)

// chatCompletions answers POST /chat/completions.
func (a *API) chatCompletions(ctx context.Context, in *chatInput, stream endpoint.Stream) (*chatCompletion, error) {
	call := newCall(ctx, &in.fields)
	if in.True("stream") {
		return nil, a.stream(ctx, call, stream)
	}
	call.Cache = in.cache()
	answer, err := a.models.Chat(ctx, call)
	if err != nil {
		return nil, err
	}
	if headers, ok := endpoint.RequestFrom(ctx).(endpoint.Headers); ok && call.Cache != nil && call.Cache.Hit {
		headers.AnswerHeader("X-Service-Cache", "hit")
	}
	return &chatCompletion{whole: whole{answer}}, nil
}

// embeddings answers POST /embeddings.
func (a *API) embeddings(ctx context.Context, in *embeddingsInput) (*embeddingList, error) {
	answer, err := a.models.Embed(ctx, newCall(ctx, &in.fields))
	if err != nil {
		return nil, err
	}
	return &embeddingList{whole: whole{answer}}, nil
}

// moderations answers POST /moderations: by a guardrail of the project, the built-in one, or a model of that category.
func (a *API) moderations(ctx context.Context, in *moderationsInput) (*moderation, error) {
	if answer, err := a.rail(ctx, in); answer != nil || err != nil {
		return answer, err
	}
	if in.key == "" || in.key == moderate.Key {
		answer := &moderation{ID: "modr_" + newUUID(), Model: moderate.Key}
		for _, text := range in.texts {
			answer.Results = append(answer.Results, moderate.Judge(text))
		}
		return answer, nil
	}
	answer, err := a.models.Moderate(ctx, newCall(ctx, &in.fields))
	if err != nil {
		return nil, guardrailProblem(err)
	}
	return &moderation{raw: answer}, nil
}

// guardrailProblem names the accepted guardrail keys in the error for an unknown one.
func guardrailProblem(err error) error {
	problem := problemOf(err)
	if problem.Status == http.StatusNotFound && problem.Code == "model_not_found" {
		hinted := *problem
		hinted.Message = "No moderation guardrail with this key: leave `model` out, or name `" + moderate.Key +
			"`, a guardrail with moderation or a model of category moderation"
		return &hinted
	}
	return err
}

// newCall makes the call for a request. The answer repeats the caller's request_id, or has a new UUID.
func newCall(ctx context.Context, body *fields) *Call {
	const longest = 128
	id := body.Text("request_id")
	if id == "" || len(id) > longest {
		id = newUUID()
	}
	return &Call{Caller: endpoint.CallerFrom(ctx), RequestID: id, Model: body.Text("model"), Body: body.Fields}
}

// NewCall makes the call for a request with this body.
func NewCall(ctx context.Context, body rawjson.Fields) *Call { return newCall(ctx, &fields{body}) }

// newUUID is a random UUID (version 4).
func newUUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails, it ends the process instead
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
