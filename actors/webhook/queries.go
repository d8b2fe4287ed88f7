package webhook

import (
	"cmp"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/subscription"
	"parley/actors/kit"
	"parley/proto/webhookpb"
)

// Queries are the reads of deliveries.
func Queries() []kit.Query {
	return []kit.Query{kit.Read(readPage), kit.Read(readOne), kit.Read(readFailed), kit.Read(readWork)}
}

// maxPage bounds the deliveries that one query reads.
const maxPage = 2000

// readPage reads a page of deliveries, the newest first. Each status has its rows by number: a page of all is their merge.
func readPage(view kit.View, _ *webhookpb.State, query *webhookpb.DeliveriesQuery) (*webhookpb.DeliveriesReply, error) {
	limit, skip := int(min(query.GetLimit(), maxPage)), int(min(query.GetSkip(), subscription.MaxSkip))
	tables := []uint8{TablePending, TableDelivered, TableFailed}
	switch query.GetStatus() {
	case webhookpb.Status_PENDING:
		tables = tables[:1]
	case webhookpb.Status_DELIVERED:
		tables = tables[1:2]
	case webhookpb.Status_FAILED:
		tables = tables[2:]
	default:
	}
	var found []place
	for _, table := range tables {
		err := view.Items(query.GetId(), kit.ItemQuery{Table: table, Descending: true, Limit: skip + limit + 1}, func(key, value []byte) bool {
			found = append(found, place{number: binary.BigEndian.Uint64(key), table: table, at: table == TablePending, value: head(table, value)})
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b place) int { return cmp.Compare(b.number, a.number) })
	found = found[min(skip, len(found)):]
	reply := &webhookpb.DeliveriesReply{HasMore: len(found) > limit}
	for _, one := range found[:min(limit, len(found))] {
		d, err := one.read(view, query.GetId())
		if err != nil {
			return nil, err
		}
		if d != nil {
			reply.Deliveries = append(reply.Deliveries, d)
		}
	}
	return reply, nil
}

// place is where a delivery is stored.
type place struct {
	number uint64
	table  uint8
	at     bool   // value is when it is due
	value  []byte // of a pending one
}

// head keeps what names the place of a pending delivery. What a page skips is not copied.
func head(table uint8, value []byte) []byte {
	if table != TablePending {
		return nil
	}
	return slices.Clone(value)
}

func (p place) read(view kit.View, id string) (*webhookpb.Delivery, error) {
	table, key := p.table, numberKey(p.number)
	if p.at {
		table, key = TableDue, append(slices.Clone(p.value), key...)
	}
	return kit.Item[webhookpb.Delivery](view, id, table, string(key))
}

// readOne finds a delivery by its number.
func readOne(view kit.View, state *webhookpb.State, query *webhookpb.DeliveryQuery) (*webhookpb.DeliveryReply, error) {
	reply := &webhookpb.DeliveryReply{Revision: state.GetRevision()}
	value, isPending, err := view.Item(query.GetId(), TablePending, numberKey(query.GetNumber()))
	if err != nil {
		return nil, err
	}
	places := []place{{number: query.GetNumber(), table: TableDelivered}, {number: query.GetNumber(), table: TableFailed}}
	if isPending {
		places = []place{{number: query.GetNumber(), table: TablePending, at: true, value: slices.Clone(value)}}
	}
	for _, one := range places {
		if reply.Delivery, err = one.read(view, query.GetId()); err != nil || reply.GetDelivery() != nil {
			return reply, err
		}
	}
	return reply, nil
}

// readFailed finds deliveries that failed within a span of time. It looks at maxPage of those that failed at most.
func readFailed(view kit.View, state *webhookpb.State, query *webhookpb.FailedQuery) (*webhookpb.FailedReply, error) {
	reply := &webhookpb.FailedReply{Revision: state.GetRevision()}
	limit := int(min(query.GetLimit(), MaxRedelivered))
	seen, last := 0, query.GetAfter()
	var failed error
	err := view.Items(query.GetId(), kit.ItemQuery{Table: TableFailed, From: numberKey(query.GetAfter() + 1), Limit: maxPage + 1}, func(key, value []byte) bool {
		if seen++; seen > maxPage || len(reply.GetDeliveries()) == limit {
			reply.Next = last
			return false
		}
		last = binary.BigEndian.Uint64(key)
		d := &webhookpb.Delivery{}
		if failed = proto.Unmarshal(value, d); failed != nil {
			return false
		}
		if at := d.GetSettledAt(); at >= query.GetFrom() && at < query.GetTo() && d.GetCall().GetEvent() != subscription.TestType {
			reply.Deliveries = append(reply.Deliveries, d)
		}
		return true
	})
	return reply, cmp.Or(err, failed)
}

// readWork reads what a courier is to do.
func readWork(view kit.View, state *webhookpb.State, query *webhookpb.WorkQuery) (*webhookpb.WorkReply, error) {
	reply := &webhookpb.WorkReply{State: state}
	limit := int(min(query.GetLimit(), maxPage))
	var failed error
	err := view.Items(query.GetId(), kit.ItemQuery{Table: TableDue, Limit: limit + 1}, func(key, value []byte) bool {
		at := int64(binary.BigEndian.Uint64(key))
		if at > query.GetUntil() || len(reply.GetDue()) == limit {
			reply.NextAt = at
			return false
		}
		d := &webhookpb.Delivery{}
		failed = proto.Unmarshal(value, d)
		reply.Due = append(reply.Due, d)
		return failed == nil
	})
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	for _, table := range []uint8{TableDelivered, TableFailed} {
		if err = readOld(view, query, table, reply); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

// readOld finds deliveries of a table that are to be removed. They are about as old as their numbers say.
func readOld(view kit.View, query *webhookpb.WorkQuery, table uint8, reply *webhookpb.WorkReply) (failed error) {
	if query.GetSettledBefore() == 0 {
		return nil
	}
	err := view.Items(query.GetId(), kit.ItemQuery{Table: table, Limit: int(min(query.GetLimit(), maxPage))}, func(_, value []byte) bool {
		d := &webhookpb.Delivery{}
		if failed = proto.Unmarshal(value, d); failed != nil {
			return false
		}
		if d.GetSettledAt() < query.GetSettledBefore() {
			reply.Old = append(reply.Old, &webhookpb.Mark{Number: d.GetNumber(), Status: d.GetStatus()})
		}
		return d.GetCreatedAt() < query.GetSettledBefore() && len(reply.GetOld()) < maxBatch
	})
	return cmp.Or(err, failed)
}
