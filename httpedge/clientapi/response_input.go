package clientapi

import (
	"encoding/json"
	"math"
	"net/url"
	"reflect"
	"strings"

	"parley/actors/machine"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/turns"
	"parley/proto/failurepb"
)

// responsePrefix stands before a session's id in the id of its responses.
const responsePrefix = "resp_"

// responseOrder is what both Responses routes take (document 1, "Responses request fields"; document 3, 8.1).
type responseOrder struct {
	Model              anyText           `json:"model" required:"true" doc:"Key of an active agent"`
	Version            versionInput      `json:"version" doc:"Pins a published version"`
	PreviousResponseID anyText           `json:"previous_response_id" doc:"resp_ and the id of the session to continue"`
	SessionID          anyText           `json:"session_id" doc:"Session to continue"`
	Conversation       conversationInput `json:"conversation" any:"true" doc:"Session to continue: its id, or {id}"`
	Budget             budgetInput       `json:"budget" doc:"Of the session that this request creates; ignored when one is continued"`
	Background         bool              `json:"background" doc:"Answer with a run (202) and carry it out in the background"`
	CallbackURL        anyText           `json:"callback_url" doc:"Where changes of the run are posted; goes with background"`
	CallbackSecret     anyText           `json:"callback_secret" doc:"Signs the posts; at least 16 characters"`
	RuntimeContext     runtimeContext    `json:"runtime_context" doc:"Handed to tools and connected agents that let it pass; never shown"`
}

// createAgentResponseIn is the body of POST /agents/responses. What it does not have is refused: none of it would be done.
type createAgentResponseIn struct {
	responseOrder

	Input messageInput `json:"input" required:"true" any:"true" doc:"Text, or items of which the last one of role user is the message: text, or parts input_text, input_file (file_id, or file_data and filename) and input_image (image_url with a data URL, or file_id)"`

	dropped string // name of the first field that is not taken
}

// UnmarshalJSON notes fields that are not taken. One that asks for nothing, or for what is done anyway, is no such field.
func (in *createAgentResponseIn) UnmarshalJSON(raw []byte) error {
	type plain createAgentResponseIn
	if err := json.Unmarshal(raw, (*plain)(in)); err != nil {
		return err
	}
	known := fieldsOf[createAgentResponseIn]()
	eachMember(raw, func(name string, value json.RawMessage) {
		usual := name == "stream" && string(value) == "false" || name == "store" && string(value) == "true"
		if in.dropped == "" && !usual && !asksNothing(value) && !known[strings.ToLower(name)] {
			in.dropped = name
		}
	})
	return nil
}

// Validate implements endpoint.Validator.
func (in *createAgentResponseIn) Validate() *machine.Failure {
	failure := in.checkForm()
	switch {
	case failure != nil:
		return failure
	case in.dropped == "stream":
		return invalid("stream: responses of this route are never streamed; those of /responses can be")
	case in.dropped != "":
		return notTaken(in.dropped)
	}
	return nil
}

func notTaken(field string) *machine.Failure {
	const longest = 64
	return invalid("%.*q is not supported here", longest, field)
}

// asksNothing says that a value is as good as none.
func asksNothing(value []byte) bool {
	switch string(wire.Compact(value)) {
	case "", "null", "[]", "{}", `""`: // "" is null, too
		return true
	}
	return false
}

// fieldsOf is the names of an input's fields, in lower case: they are read in any.
func fieldsOf[In any]() map[string]bool {
	names := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if tag, ok := field.Tag.Lookup("json"); ok {
			names[strings.ToLower(tag)] = true
		}
	}
	return names
}

// anyText is a text, or something else that its reader refuses in its own words.
type anyText struct {
	Text  string
	Wrong bool
}

// UnmarshalJSON never fails. null is no text.
func (t *anyText) UnmarshalJSON(raw []byte) error {
	*t = anyText{}
	if !isNull(raw) {
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
	if isNull(raw) {
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
	case isNull(raw):
	case json.Unmarshal(raw, &c.ID) == nil:
	case json.Unmarshal(raw, &object) == nil && object.ID != nil:
		c.ID = *object.ID
	default:
		c.Wrong = true
	}
	return nil
}

// Described implements openapi.Described.
func (c conversationInput) Described() (value any, nullable bool) { return json.RawMessage(nil), true }

// checkForm refuses what can be told from the body alone, in the order of document 3, 8.1, up to where the agent is looked up.
func (in *responseOrder) checkForm() *machine.Failure {
	switch {
	case in.Model.Wrong || strings.TrimSpace(in.Model.Text) == "":
		return invalid("model field is required and must contain the agent key")
	case in.Version.Wrong:
		return invalid("version must be a positive integer")
	}
	return nil
}

func (in *responseOrder) checkCallback() *machine.Failure {
	const shortest, longest, longestURL = 16, 1024, 2048
	to, secret := in.CallbackURL.Text, in.CallbackSecret.Text
	switch {
	case in.CallbackURL.Wrong || in.CallbackSecret.Wrong:
		return invalid("callback_url and callback_secret must be strings")
	case to == "" && secret == "":
		return nil
	case to == "":
		return invalid("callback_secret needs a callback_url")
	case !in.Background:
		return invalid("callback_url needs background: true")
	case secret != "" && len([]rune(secret)) < shortest:
		return invalid("callback_secret must be at least %d characters", shortest)
	case len(secret) > longest:
		return invalid("callback_secret must be at most %d bytes", longest)
	case len(to) > longestURL:
		return invalid("callback_url must be at most %d characters", longestURL)
	}
	parsed, err := url.Parse(to)
	switch {
	case err != nil || parsed.Host == "":
		return invalid("callback_url is not a valid URL")
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return invalid("callback_url must use http or https")
	}
	return nil
}

// named is the session that the request continues, "" for a new one, and how its absence is worded.
func (in *responseOrder) named() (id, missing string, failure *machine.Failure) {
	if in.SessionID.Wrong || in.PreviousResponseID.Wrong || in.Conversation.Wrong {
		return "", "", invalid("session_id, previous_response_id and conversation must be strings")
	}
	previous, ok := strings.CutPrefix(in.PreviousResponseID.Text, responsePrefix)
	if !ok && previous != "" {
		return "", "", invalid("previous_response_id must begin with %s", responsePrefix)
	}
	session, conversation := in.SessionID.Text, in.Conversation.ID
	switch {
	case session != "" && previous != "" && session != previous:
		return "", "", machine.Fail(failurepb.Code_SESSION_CONFLICT, "session_id and previous_response_id name different sessions")
	case conversation != "" && session != "" && conversation != session,
		conversation != "" && previous != "" && conversation != previous:
		return "", "", invalid("conversation names another session")
	case session != "":
		return session, "Session not found", nil
	case conversation != "":
		return conversation, "Session not found", nil
	}
	return previous, "previous_response_id does not match a valid conversation", nil
}

// plausibleFiles says whether the ids of files could be some.
func plausibleFiles(ids []string) bool {
	for _, id := range ids {
		if !turns.Plausible(id) {
			return false
		}
	}
	return true
}
