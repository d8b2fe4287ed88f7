package node

import (
	"context"

	"parley/actors/inference"
	"parley/cmd/parley/node/spool"
	"parley/httpedge/gateway"
	"parley/httpedge/gateway/audio"
)

// uploadsFolder is where recordings are kept while they are transcribed, below the data directory.
const uploadsFolder = "uploads"

// gatewaySound implements audio.Models with the inference caller.
type gatewaySound struct{ caller *inference.Caller }

var _ audio.Models = gatewaySound{}

// Speak implements audio.Models.
func (g gatewaySound) Speak(ctx context.Context, call *gateway.Call) (*audio.Sound, error) {
	made, err := g.caller.Speak(ctx, inferenceCall(call))
	if err != nil {
		return nil, inferenceProblem(err)
	}
	return &audio.Sound{ContentType: made.ContentType, Audio: made.Audio}, nil
}

// Transcribe implements audio.Models.
func (g gatewaySound) Transcribe(ctx context.Context, call *gateway.Call, recording *audio.Recording) ([]byte, error) {
	given := inference.Recording(*recording)
	answer, err := g.caller.Transcribe(ctx, inferenceCall(call), &given)
	return answer, inferenceProblem(err)
}

// uploads implements audio.Spool.
type uploads struct{ spool *spool.Spool }

var _ audio.Spool = uploads{}

// Create implements audio.Spool.
func (u uploads) Create() (audio.Spooled, error) {
	file, err := u.spool.Create()
	if err != nil {
		return nil, err
	}
	return file, nil
}
