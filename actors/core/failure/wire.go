package failure

import (
	"encoding/json"
	"fmt"

	"parley/proto/failurepb"
)

// Message is a protobuf message that holds a failure: for another node, or for an entity.
type Message interface {
	GetCode() failurepb.Code
	GetMessage() string
	GetDetails() []byte
	GetReason() string
	GetField() string
	GetParams() []*failurepb.Param
}

// Encoded are the fields of a Message.
type Encoded struct {
	Code    failurepb.Code
	Message string // the default words: all that the release before reads
	Details []byte // JSON object, nil = none
	Reason  string // empty = the message is verbatim
	Field   string
	Params  []*failurepb.Param
}

// Encode returns the fields of a message that holds the failure. It fails when the details do not marshal.
func (f *Failure) Encode() (Encoded, error) {
	e := Encoded{Code: f.Code, Message: f.DefaultText()}
	if len(f.Details) > 0 {
		var err error
		if e.Details, err = json.Marshal(f.Details); err != nil {
			return e, fmt.Errorf("details: %w", err)
		}
	}
	if f.Reason == Literal {
		return e, nil
	}
	e.Reason, e.Field = string(f.Reason), f.Field
	for _, p := range f.Params {
		param := &failurepb.Param{Name: p.Name}
		switch v := p.Value.(type) {
		case int64:
			param.Value = &failurepb.Param_Number{Number: v}
		default:
			param.Value = &failurepb.Param_Text{Text: show(v)}
		}
		e.Params = append(e.Params, param)
	}
	return e, nil
}

// Decode returns the failure that a message holds. One from a node of the release before holds only words, which are kept as
// they are. It fails when the details are no JSON object; the failure is then without.
func Decode(m Message) (*Failure, error) {
	f := &Failure{Code: m.GetCode(), Reason: Reason(m.GetReason()), Field: m.GetField()}
	for _, p := range m.GetParams() {
		switch v := p.GetValue().(type) {
		case *failurepb.Param_Number:
			f.Params = append(f.Params, Param{p.GetName(), v.Number})
		case *failurepb.Param_Text:
			f.Params = append(f.Params, Param{p.GetName(), v.Text})
		}
	}
	if f.Reason == "" || f.Reason.words() == "" {
		f.Reason, f.Field, f.Params = former(m), "", []Param{{paramText, m.GetMessage()}}
	}
	if len(m.GetDetails()) > 0 {
		if err := json.Unmarshal(m.GetDetails(), &f.Details); err != nil {
			return f, fmt.Errorf("details: %w", err)
		}
	}
	return f, nil
}

// former is the reason of a failure from a node of the release before, for the reasons on which code depends. It goes with the
// next release.
func former(m Message) Reason {
	for _, known := range []Reason{ConversationNotFound, ConversationDeleted, ConversationChanged} {
		if m.GetReason() == "" && m.GetMessage() == New(m.GetCode(), known).DefaultText() {
			return known
		}
	}
	return Literal
}
