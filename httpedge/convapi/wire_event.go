package convapi

import (
	"strconv"

	"parley/httpedge/eventlog"
	"parley/proto/nodepb"
)

// eventPage is a page of the event log.
type eventPage struct{ page *nodepb.EventsReply }

// AppendJSON implements endpoint.Appender.
func (p *eventPage) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"events":`...)
	dst = eventlog.AppendAll(dst, p.page.Events, eventlog.Conversation)
	dst = append(dst, `,"hasMore":`...)
	dst = strconv.AppendBool(dst, p.page.HasMore)
	dst = append(dst, `,"lastSeq":`...)
	dst = strconv.AppendUint(dst, p.page.LastSeq, 10)
	return append(dst, '}')
}

// Described implements openapi.Described.
func (p *eventPage) Described() (value any, nullable bool) { return eventPageSchema{}, false }
