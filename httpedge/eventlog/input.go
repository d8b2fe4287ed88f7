package eventlog

import (
	"strings"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/sse"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// PageInput is the input of a request for a page of the event log.
type PageInput struct {
	ID    string `path:"id"`
	After string `query:"after" default:"0" doc:"Only events with a greater seq"`
	Types string `query:"types" list:"," doc:"Only events of these types, separated by commas"`
	Limit int    `query:"limit"`

	after uint64
}

// Validate implements endpoint.Validator.
func (in *PageInput) Validate() (refused *machine.Failure) {
	in.after, refused = cursor("after", in.After)
	return refused
}

// Query converts the input to a query of the conversation's events.
func (in *PageInput) Query() *nodepb.EventsQuery {
	return &nodepb.EventsQuery{Id: in.ID, After: in.after, Types: splitTypes(in.Types), Limit: uint32(in.Limit)}
}

// StreamInput is the input of a request to follow the event log.
type StreamInput struct {
	ID          string `path:"id"`
	After       string `query:"after" doc:"Replay events with a greater seq; Last-Event-ID wins"`
	Types       string `query:"types" list:"," doc:"Only frames of these types, separated by commas"`
	LastEventID string `header:"Last-Event-ID" doc:"Seq of the last event seen"`

	after uint64
}

// Validate implements endpoint.Validator.
func (in *StreamInput) Validate() (refused *machine.Failure) {
	if in.LastEventID != "" {
		in.after, refused = cursor("Last-Event-ID", in.LastEventID)
		return refused
	}
	in.after, refused = cursor("after", in.After)
	return refused
}

// cursor parses a seq; empty is 0. name is the field's, for the failure.
func cursor(name, text string) (uint64, *machine.Failure) {
	after, err := sse.ParseCursor(text)
	if err != nil {
		return 0, failure.New(failurepb.Code_VALIDATION, failure.NotWholeNumber).Param("name", name)
	}
	return after, nil
}

// splitTypes splits a comma-separated list; nil = all types.
func splitTypes(list string) []string {
	var types []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			types = append(types, name)
		}
	}
	return types
}
