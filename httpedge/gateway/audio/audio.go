package audio

import (
	"context"
	"errors"
	"io"
	"time"

	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/proto/failurepb"
)

// Models speaks and hears. Errors are as those of gateway.Models.
type Models interface {
	// Speak makes speech of the text in the call's body.
	Speak(ctx context.Context, call *gateway.Call) (*Sound, error)
	// Transcribe returns the JSON of the answer.
	Transcribe(ctx context.Context, call *gateway.Call, recording *Recording) ([]byte, error)
}

// Sound is speech.
type Sound struct {
	ContentType string
	Audio       []byte
}

// Recording is what is to be written down, and how.
type Recording struct {
	Audio                 io.ReaderAt // not to be read any more when the call has ended
	Size                  int64
	FileName, ContentType string

	Translate           bool
	Language, Prompt    string
	Format, Temperature string
	ByWord, BySegment   bool
}

// Spool keeps recordings while their calls last.
type Spool interface {
	// Create makes room for one. Refusals are a *failure.Failure, as those of its Write.
	Create() (Spooled, error)
}

// Spooled is a recording that is kept. Close forgets it.
type Spooled interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// Config is the settings of the routes of sound.
type Config struct {
	// MaxUpload is the largest recording, in bytes. Default 100 MiB.
	MaxUpload int64
	// UploadTimeout bounds how long a recording may take to come, CallTimeout the call of the model after it. Default 15 m, 125 s.
	UploadTimeout, CallTimeout time.Duration
	// MaxBody is the largest body of a request for speech. Default 10 MiB.
	MaxBody int
}

// DefaultConfig returns the settings in force unless configured otherwise.
func DefaultConfig() Config {
	of := gateway.DefaultConfig()
	return Config{MaxUpload: 100 << 20, UploadTimeout: 15 * time.Minute, CallTimeout: of.CallTimeout, MaxBody: of.MaxBody}
}

// Validate says what is wrong with the settings.
func (c Config) Validate() error {
	if c.MaxUpload < 1 || c.MaxBody < 1 || c.UploadTimeout <= 0 || c.CallTimeout <= 0 {
		return errors.New("audio: the limits of size and time must be positive")
	}
	return nil
}

// API holds the handlers.
type API struct {
	config Config
	models Models
	spool  Spool
}

// New returns the API. Nil models and spool serve only to read the routes.
func New(config Config, models Models, spool Spool) *API { return &API{config, models, spool} }

// Routes are those of sound, for the gateway's surface.
func (a *API) Routes() []endpoint.Route {
	common := func(summary string, limit time.Duration, more ...endpoint.Option) []endpoint.Option {
		return append([]endpoint.Option{
			endpoint.Errors(failurepb.Code_VALIDATION, failurepb.Code_FORBIDDEN, failurepb.Code_TOO_LARGE, failurepb.Code_RATE_LIMITED),
			endpoint.Tag("Audio"), endpoint.Summary(summary), endpoint.Timeout(limit), endpoint.EndsWithClient(),
			endpoint.Unaudited(gateway.NoAudit), gateway.ProviderRefuses,
		}, more...)
	}
	upload := func(summary string) []endpoint.Option {
		// Base64 takes a third more; without a limit of its own, a body of JSON would be refused by its length.
		return common(summary, a.config.UploadTimeout+a.config.CallTimeout,
			endpoint.MaxBody(int(a.bodyLimit())), endpoint.Media("multipart/form-data"),
			endpoint.Errors(failurepb.Code_STORAGE_FULL, failurepb.Code_STORAGE_FAILED))
	}
	return []endpoint.Route{
		endpoint.OnBytes("POST /audio/speech", "models:write", a.speech,
			common("Speak a text", a.config.CallTimeout, endpoint.MaxBody(a.config.MaxBody), endpoint.Once(),
				endpoint.Media("audio/mpeg", "audio/ogg", "audio/aac", "audio/flac", "audio/wav", "audio/L16"))...),
		endpoint.OnUpload("POST /audio/transcriptions", "models:write", a.transcribe, upload("Write down what a recording says")...),
		endpoint.OnUpload("POST /audio/translations", "models:write", a.translate, upload("Write down in English what a recording says")...),
	}
}

// bodyLimit is the largest body that can hold a recording.
func (a *API) bodyLimit() int64 { return a.config.MaxUpload + a.config.MaxUpload/2 + maxBeside }

// speech answers POST /audio/speech.
func (a *API) speech(ctx context.Context, in *speechInput) (*endpoint.File, error) {
	made, err := a.models.Speak(ctx, gateway.NewCall(ctx, in.fields))
	if err != nil {
		return nil, err
	}
	return &endpoint.File{ContentType: made.ContentType, Body: made.Audio}, nil
}

// transcribe answers POST /audio/transcriptions.
func (a *API) transcribe(ctx context.Context, in *recordingInput, upload *endpoint.Upload) (*transcription, error) {
	return a.hear(ctx, in.contentType, upload, false)
}

// translate answers POST /audio/translations.
func (a *API) translate(ctx context.Context, in *translationInput, upload *endpoint.Upload) (*transcription, error) {
	return a.hear(ctx, in.contentType, upload, true)
}

func (a *API) hear(ctx context.Context, contentType string, upload *endpoint.Upload, translate bool) (*transcription, error) {
	if upload == nil {
		return nil, errors.New("a recording came as no upload")
	}
	if upload.Length > a.bodyLimit() {
		return nil, tooLarge(a.config.MaxUpload)
	}
	got := &received{spool: a.spool, most: a.config.MaxUpload, translate: translate}
	defer got.close()
	if err := got.read(contentType, upload.Body); err != nil {
		return nil, err
	}
	call, recording, err := got.request(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := a.models.Transcribe(ctx, call, recording)
	if err != nil {
		return nil, err
	}
	return &transcription{raw: answer}, nil
}
