package webhook

import (
	"cmp"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/proto/logpb"
	"parley/proto/webhookpb"
)

// Tables of rows.
const (
	// TableDue holds the pending deliveries by when they are due, then by number.
	TableDue = 1
	// TableDelivered and TableFailed hold the settled ones by number.
	TableDelivered = 2
	TableFailed    = 3
	// TablePending says by number when a pending delivery is due: where it is in TableDue.
	TablePending = 4
)

// ListLooking is the list of the endpoints that a courier is at: what a new owner of the shard must activate. ListDue is the list of
// the others by when something is to be done.
const (
	ListLooking = "webhook/looking"
	ListDue     = "webhook/due"
)

func numberKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

func dueKey(at int64, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(max(at, 0))), number)
}

func settledTable(status webhookpb.Status) uint32 {
	if status == webhookpb.Status_DELIVERED {
		return TableDelivered
	}
	return TableFailed
}

// project adds the rows that change.
func project(was, is *webhookpb.State, events []proto.Message, into *logpb.Append) {
	id := cmp.Or(is.GetId(), was.GetId())
	for _, message := range events {
		event, _ := message.(*webhookpb.Event)
		switch body := event.GetBody().(type) {
		case *webhookpb.Event_Accepted:
			for _, d := range body.Accepted.GetDeliveries() {
				put(into, d)
			}
		case *webhookpb.Event_Moved:
			for _, move := range body.Moved.GetMoves() {
				drop(into, &webhookpb.Mark{Number: move.GetDelivery().GetNumber(), Status: move.GetWas(), At: move.GetWasAt()})
				put(into, move.GetDelivery())
			}
		case *webhookpb.Event_Trimmed:
			for _, mark := range body.Trimmed.GetMarks() {
				drop(into, mark)
			}
		}
	}
	machine.Relist(into, ListLooking, id, lookingAt(was), lookingAt(is))
	machine.Relist(into, ListDue, id, dueAt(was), dueAt(is))
}

// put writes the rows of a delivery.
func put(into *logpb.Append, d *webhookpb.Delivery) {
	value, _ := proto.Marshal(d) // the event that carries the same would have failed before
	if d.GetStatus() != webhookpb.Status_PENDING {
		into.Items = append(into.Items, &logpb.Item{Table: settledTable(d.GetStatus()), Key: numberKey(d.GetNumber()), Value: value})
		return
	}
	at := d.GetCall().GetNextAt()
	into.Items = append(into.Items,
		&logpb.Item{Table: TableDue, Key: dueKey(at, d.GetNumber()), Value: value},
		&logpb.Item{Table: TablePending, Key: numberKey(d.GetNumber()), Value: numberKey(uint64(max(at, 0)))})
}

// drop removes the rows of a delivery.
func drop(into *logpb.Append, mark *webhookpb.Mark) {
	if mark.GetStatus() != webhookpb.Status_PENDING {
		into.Items = append(into.Items, &logpb.Item{Table: settledTable(mark.GetStatus()), Key: numberKey(mark.GetNumber()), Delete: true})
		return
	}
	into.Items = append(into.Items,
		&logpb.Item{Table: TableDue, Key: dueKey(mark.GetAt(), mark.GetNumber()), Delete: true},
		&logpb.Item{Table: TablePending, Key: numberKey(mark.GetNumber()), Delete: true})
}

func lookingAt(s *webhookpb.State) int64 {
	if s.GetLooking() {
		return 1
	}
	return 0
}

// dueAt is when something is to be done at an endpoint that no courier is at, 0 = nothing.
func dueAt(s *webhookpb.State) int64 {
	if s == nil || s.GetLooking() {
		return 0
	}
	return machine.Sooner(s.GetLookAt(), s.GetTrimAt())
}
