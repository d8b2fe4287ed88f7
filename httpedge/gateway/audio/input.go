package audio

import (
	"bytes"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/machine/rawjson"
	"parley/proto/failurepb"
)

// speechInput is the body of POST /audio/speech.
type speechInput struct {
	Model          string  `json:"model" required:"true" doc:"Key of a model of category tts"`
	Input          string  `json:"input" required:"true" doc:"The text"`
	Voice          string  `json:"voice" doc:"Of the provider; default alloy"`
	ResponseFormat string  `json:"response_format" enum:"mp3,opus,aac,flac,wav,pcm" doc:"Default mp3, also for an unknown one; the Content-Type of the answer says what was made"`
	Speed          float64 `json:"speed"`
	Instructions   string  `json:"instructions"`

	fields rawjson.Fields
}

// UnmarshalJSON keeps the body as it is.
func (in *speechInput) UnmarshalJSON(raw []byte) error {
	fields, err := rawjson.Object(bytes.Clone(raw))
	if err != nil {
		return failure.New(failurepb.Code_VALIDATION, failure.BodyNotAnObject)
	}
	in.fields = fields
	return nil
}

// Validate implements endpoint.Validator.
func (in *speechInput) Validate() *failure.Failure {
	switch {
	case in.fields == nil: // an empty body
		return failure.New(failurepb.Code_VALIDATION, failure.BodyNotAnObject)
	case in.fields.Text("model") == "":
		return invalid("model", failure.Required)
	case strings.TrimSpace(in.fields.Text("input")) == "":
		return invalid("input", failure.SpeechTextRequired)
	case in.fields.Text("stream_format") == "sse":
		return invalid("stream_format", failure.SoundNotStreamed)
	}
	for _, name := range []string{"voice", "instructions"} {
		if raw := in.fields.Get(name); raw != nil && raw[0] != '"' {
			return wrongType(name, "a string")
		}
	}
	if raw := in.fields.Get("speed"); raw != nil && raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return wrongType("speed", "a number")
	}
	return nil
}

// invalid refuses a request because of one of its fields.
func invalid(param string, reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_VALIDATION, reason).In(param).With("param", param)
}

func wrongType(name, kind string) *failure.Failure {
	return invalid(name, failure.WrongType).Param("name", "`"+name+"`").Param("type", kind)
}

// recordingInput is the body of POST /audio/transcriptions: the fields describe it, the handler reads it.
type recordingInput struct {
	Model                  string     `json:"model" required:"true" doc:"Key of a model of category stt"`
	Audio                  *sentAudio `json:"audio" required:"true" form:"file" doc:"The recording; in a form the file, in field file"`
	Language               string     `json:"language" doc:"That is spoken"`
	Prompt                 string     `json:"prompt"`
	ResponseFormat         string     `json:"response_format" enum:"json,text,srt,verbose_json,vtt" doc:"Default json. Text and subtitles come in the text of the answer"`
	Temperature            float64    `json:"temperature"`
	TimestampGranularities []string   `json:"timestamp_granularities" doc:"word and segment, others have no effect; in a form timestamp_granularities[], repeated"`

	contentType string
}

type sentAudio struct {
	Data        string `json:"data" required:"true" doc:"base64"`
	FileName    string `json:"fileName"`
	ContentType string `json:"contentType"`
}

// TakesRaw implements endpoint.RawBody: JSON, too, is read as it comes.
func (in *recordingInput) TakesRaw(contentType string) bool {
	in.contentType = contentType
	return true
}

// translationInput is the body of POST /audio/translations. What a transcription has beyond it has no effect.
type translationInput struct {
	Model          string     `json:"model" required:"true" doc:"Key of a model of category stt"`
	Audio          *sentAudio `json:"audio" required:"true" form:"file" doc:"The recording; in a form the file, in field file"`
	Prompt         string     `json:"prompt"`
	ResponseFormat string     `json:"response_format" enum:"json,text,srt,verbose_json,vtt" doc:"Default json. Text and subtitles come in the text of the answer"`
	Temperature    float64    `json:"temperature"`

	contentType string
}

// TakesRaw implements endpoint.RawBody.
func (in *translationInput) TakesRaw(contentType string) bool {
	in.contentType = contentType
	return true
}

// transcription is the answer of both.
type transcription struct {
	Text      string        `json:"text" doc:"With response_format text, srt and vtt all that the model says"`
	Language  string        `json:"language,omitempty"`
	Duration  float64       `json:"duration,omitempty" doc:"Seconds"`
	Segments  []segment     `json:"segments,omitempty"`
	Words     []word        `json:"words,omitempty"`
	Usage     *hearingUsage `json:"usage,omitempty"`
	RequestID string        `json:"request_id"`

	raw []byte
}

type segment struct {
	ID               int     `json:"id,omitempty"`
	Start            float64 `json:"start,omitempty"`
	End              float64 `json:"end,omitempty"`
	Text             string  `json:"text,omitempty"`
	AvgLogprob       float64 `json:"avgLogprob,omitempty"`
	CompressionRatio float64 `json:"compressionRatio,omitempty"`
	NoSpeechProb     float64 `json:"noSpeechProb,omitempty"`
}

type word struct {
	Start float64 `json:"start,omitempty"`
	End   float64 `json:"end,omitempty"`
	Word  string  `json:"word,omitempty"`
}

type hearingUsage struct {
	InputSeconds float64 `json:"inputSeconds" doc:"An estimate where neither the provider nor the recording says it"`
	InputTokens  int     `json:"inputTokens,omitempty"`
	OutputTokens int     `json:"outputTokens,omitempty"`
	TotalTokens  int     `json:"totalTokens,omitempty"`
}

// AppendJSON implements endpoint.Appender.
func (t *transcription) AppendJSON(dst []byte) []byte { return append(dst, t.raw...) }
