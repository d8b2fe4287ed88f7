package replica

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Transport carries messages to the same groups on other nodes, into their Driver.Deliver and Driver.ReceiveSnapshot.
// Messages may be lost, duplicated, delayed and reordered, but not altered. Its methods are called from several
// goroutines.
type Transport interface {
	// Send queues messages for a node and never blocks; it may keep msgs. What does not fit is dropped, and reported
	// with Driver.ReportUnreachable.
	Send(to NodeID, msgs []Message)
	// SendSnapshot streams a snapshot over a connection of its own and returns nil once the receiver's ReceiveSnapshot has returned nil. write
	// produces the bytes; it may be called once.
	SendSnapshot(ctx context.Context, to NodeID, header Message, write func(io.Writer) error) error
}

// Message is one raft message of one group. Only this package knows its contents; others carry it as bytes.
type Message struct {
	Group GroupID
	raft  *raftpb.Message
}

// To is the receiver of the message.
func (m Message) To() NodeID { return NodeID(m.raft.GetTo()) }

// From is the sender of the message.
func (m Message) From() NodeID { return NodeID(m.raft.GetFrom()) }

// Size is the approximate number of bytes that AppendTo adds.
func (m Message) Size() int { return proto.Size(m.raft) + 4 }

// AppendTo appends the wire form of the message to b.
func (m Message) AppendTo(b []byte) ([]byte, error) {
	b = append(b, byte(m.Group>>24), byte(m.Group>>16), byte(m.Group>>8), byte(m.Group))
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m.raft)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return b, nil
}

// ParseMessage reads what AppendTo wrote. It does not keep b.
func ParseMessage(b []byte) (Message, error) {
	if len(b) < 4 {
		return Message{}, errors.New("decode message: shorter than its header")
	}
	m := Message{
		Group: GroupID(b[0])<<24 | GroupID(b[1])<<16 | GroupID(b[2])<<8 | GroupID(b[3]),
		raft:  &raftpb.Message{},
	}
	if err := proto.Unmarshal(b[4:], m.raft); err != nil {
		return Message{}, fmt.Errorf("decode message: %w", err)
	}
	return m, nil
}
