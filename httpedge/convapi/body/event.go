package body

import (
	"strconv"

	"parley/httpedge/eventlog"
	"parley/proto/nodepb"
)

// EventPage is a page of the event log.
type EventPage struct{ Page *nodepb.EventsReply }

// AppendJSON implements endpoint.Appender.
func (p *EventPage) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"events":`...)
	dst = eventlog.AppendAll(dst, p.Page.Events, eventlog.Conversation)
	dst = append(dst, `,"hasMore":`...)
	dst = strconv.AppendBool(dst, p.Page.HasMore)
	dst = append(dst, `,"lastSeq":`...)
	dst = strconv.AppendUint(dst, p.Page.LastSeq, 10)
	return append(dst, '}')
}

// Described implements openapi.Described.
func (p *EventPage) Described() (value any, nullable bool) { return eventPageSchema{}, false }
