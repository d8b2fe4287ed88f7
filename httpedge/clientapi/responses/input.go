package responses

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/machine/rawjson"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/turns"
	"parley/proto/failurepb"
)

// responseOrder is what both Responses routes take (document 1, "Responses request fields"; document 3, 8.1).
type responseOrder struct {
	Model              anyText                `json:"model" required:"true" doc:"Key of an active agent"`
	Version            versionInput           `json:"version" doc:"Pins a published version"`
	PreviousResponseID anyText                `json:"previous_response_id" doc:"resp_ and the id of the session to continue"`
	SessionID          anyText                `json:"session_id" doc:"Session to continue"`
	Conversation       conversationInput      `json:"conversation" doc:"Session to continue: its id, or {id}"`
	Budget             handler.BudgetInput    `json:"budget" doc:"Of the session that this request creates; ignored when one is continued"`
	Background         bool                   `json:"background" doc:"Answer with a run (202) and carry it out in the background"`
	CallbackURL        anyText                `json:"callback_url" doc:"Where changes of the run are posted; goes with background"`
	CallbackSecret     anyText                `json:"callback_secret" doc:"Signs the posts; at least 16 characters"`
	OnBusy             anyText                `json:"on_busy" doc:"While a turn of the session runs: reject (the default), queue (202: the message waits for its turn), interrupt (the turn is cancelled)"`
	RuntimeContext     handler.RuntimeContext `json:"runtime_context" doc:"Handed to tools and connected agents that let it pass; never shown"`
}

// createAgentResponseIn is the body of POST /agents/responses. Unknown fields are refused, since they would have no effect.
type createAgentResponseIn struct {
	responseOrder

	Input messageInput `json:"input" required:"true" doc:"Text, or items of which the last one of role user is the message: text, or parts input_text, input_file (file_id, or file_data and filename) and input_image (image_url with a data URL, or file_id)"`

	dropped string // name of the first field that is not taken
}

// UnmarshalJSON notes unsupported fields, except those whose value is empty or asks for the default.
func (in *createAgentResponseIn) UnmarshalJSON(raw []byte) error {
	type plain createAgentResponseIn
	if err := json.Unmarshal(raw, (*plain)(in)); err != nil {
		return err
	}
	handler.EachMember(raw, func(name string, value json.RawMessage) {
		if in.dropped != "" || fieldsOfAgentResponse.Has(name) || asksNothing(value) {
			return
		}
		if usual := name == "stream" && string(value) == "false" || name == "store" && string(value) == "true"; !usual {
			in.dropped = name
		}
	})
	return nil
}

//nolint:gochecknoglobals // a table; nothing writes to it
var fieldsOfAgentResponse = rawjson.NamesOf(reflect.TypeFor[createAgentResponseIn]())

// Validate implements endpoint.Validator.
func (in *createAgentResponseIn) Validate() *failure.Failure {
	refused := in.checkForm()
	switch {
	case refused != nil:
		return refused
	case in.dropped == "stream":
		return handler.Invalid(failure.StreamNotTaken).In("stream")
	case in.dropped != "":
		return notTaken(in.dropped)
	}
	return nil
}

func notTaken(field string) *failure.Failure {
	const longest = 64
	return handler.Invalid(failure.FieldNotTaken).Param("name", fmt.Sprintf("%.*s", longest, field))
}

// asksNothing says that a value is empty.
func asksNothing(value []byte) bool {
	switch string(wire.Compact(value)) {
	case "", "null", "[]", "{}", `""`: // "" is null, too
		return true
	}
	return false
}

// anyText is a text, or a value of another type, which is refused where the field is read.
type anyText struct {
	Text  string
	Wrong bool
}

// UnmarshalJSON never fails. null is no text.
func (t *anyText) UnmarshalJSON(raw []byte) error {
	*t = anyText{}
	if !handler.IsNull(raw) {
		t.Wrong = json.Unmarshal(raw, &t.Text) != nil
	}
	return nil
}

// Described implements openapi.Described.
func (t anyText) Described() (value any, nullable bool) { return "", true }

// versionInput is a version; null is none.
type versionInput struct {
	Number int64
	Wrong  bool
}

// UnmarshalJSON never fails.
func (v *versionInput) UnmarshalJSON(raw []byte) error {
	*v = versionInput{}
	if handler.IsNull(raw) {
		return nil
	}
	var number float64
	v.Wrong = json.Unmarshal(raw, &number) != nil || number < 1 || number != math.Trunc(number) || number > math.MaxInt32
	if !v.Wrong {
		v.Number = int64(number)
	}
	return nil
}

// Described implements openapi.Described.
func (v versionInput) Described() (value any, nullable bool) { return 0, true }

// conversationInput is a session's id, or an object with it.
type conversationInput struct {
	ID    string
	Wrong bool
}

// UnmarshalJSON never fails.
func (c *conversationInput) UnmarshalJSON(raw []byte) error {
	*c = conversationInput{}
	var object struct {
		ID *string `json:"id"`
	}
	switch {
	case handler.IsNull(raw):
	case json.Unmarshal(raw, &c.ID) == nil:
	case json.Unmarshal(raw, &object) == nil && object.ID != nil:
		c.ID = *object.ID
	default:
		c.Wrong = true
	}
	return nil
}

// Either implements openapi.Either.
func (c conversationInput) Either() []any { return []any{"", conversationSchema{}, nil} }

type conversationSchema struct {
	ID string `json:"id" required:"true"`
}

// checkForm refuses what can be told from the body alone, in the order of document 3, 8.1, up to where the agent is looked up.
func (in *responseOrder) checkForm() *failure.Failure {
	switch {
	case in.Model.Wrong || strings.TrimSpace(in.Model.Text) == "":
		return handler.Invalid(failure.ModelFieldRequired).In("model")
	case in.Version.Wrong:
		return handler.Invalid(failure.PositiveInteger).In("version")
	}
	return nil
}

func (in *responseOrder) checkCallback() *failure.Failure {
	const shortest, longest, longestURL = 16, 1024, 2048
	to, secret := in.CallbackURL.Text, in.CallbackSecret.Text
	switch {
	case in.CallbackURL.Wrong || in.CallbackSecret.Wrong:
		return handler.Invalid(failure.MustBeStrings).In("callback_url").Param("other", "callback_secret")
	case to == "" && secret == "":
		return nil
	case to == "":
		return handler.Invalid(failure.NeedsOther).In("callback_secret").Param("other", "callback_url")
	case !in.Background:
		return handler.Invalid(failure.NeedsBackground).In("callback_url")
	case secret != "" && len([]rune(secret)) < shortest:
		return handler.Invalid(failure.AtLeastCharacters).In("callback_secret").Param("least", shortest)
	case len(secret) > longest:
		return handler.Invalid(failure.NoMoreBytes).In("callback_secret").Param("most", longest)
	case len(to) > longestURL:
		return handler.Invalid(failure.AtMostCharacters).In("callback_url").Param("most", longestURL)
	}
	parsed, err := url.Parse(to)
	switch {
	case err != nil || parsed.Host == "":
		return handler.Invalid(failure.BadURL).In("callback_url")
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return handler.Invalid(failure.URLScheme).In("callback_url")
	}
	return nil
}

// named is the session that the request continues, "" for a new one, and the reason for which it is refused when it does not exist.
func (in *responseOrder) named() (id string, missing failure.Reason, refused *failure.Failure) {
	if in.SessionID.Wrong || in.PreviousResponseID.Wrong || in.Conversation.Wrong {
		return "", "", handler.Invalid(failure.MustBeStrings).In("session_id, previous_response_id").Param("other", "conversation")
	}
	previous, ok := strings.CutPrefix(in.PreviousResponseID.Text, render.ResponsePrefix)
	if !ok && previous != "" {
		return "", "", handler.Invalid(failure.BadPreviousPrefix).In("previous_response_id").Param("prefix", render.ResponsePrefix)
	}
	session, conversation := in.SessionID.Text, in.Conversation.ID
	switch {
	case session != "" && previous != "" && session != previous:
		return "", "", failure.New(failurepb.Code_SESSION_CONFLICT, failure.SessionsDiffer)
	case conversation != "" && session != "" && conversation != session,
		conversation != "" && previous != "" && conversation != previous:
		return "", "", handler.Invalid(failure.OtherSessionNamed).In("conversation")
	case session != "":
		return session, failure.SessionNotFound, nil
	case conversation != "":
		return conversation, failure.SessionNotFound, nil
	}
	return previous, failure.PreviousNotFound, nil
}

// plausibleFiles says whether all ids have the form of a file's id.
func plausibleFiles(ids []string) bool {
	for _, id := range ids {
		if !turns.Plausible(id) {
			return false
		}
	}
	return true
}
