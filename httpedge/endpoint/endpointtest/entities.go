package endpointtest

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Entities is an entity.Client that answers as a test says, by the type of the command or query. The zero value answers nothing.
type Entities map[protoreflect.FullName]func(ctx context.Context, message proto.Message) (proto.Message, error)

// On has commands or queries of one type answered by a function.
func On[Q, R proto.Message](e Entities, answer func(ctx context.Context, message Q) (R, error)) {
	var empty Q
	e[empty.ProtoReflect().Descriptor().FullName()] = func(ctx context.Context, message proto.Message) (proto.Message, error) {
		asked, _ := message.(Q)
		reply, err := answer(ctx, asked)
		if err != nil {
			return nil, err
		}
		return reply, nil
	}
}

// Ask implements entity.Client.
func (e Entities) Ask(ctx context.Context, _ string, command proto.Message) (proto.Message, error) {
	return e.Read(ctx, command)
}

// Read implements entity.Client.
func (e Entities) Read(ctx context.Context, query proto.Message) (proto.Message, error) {
	name := query.ProtoReflect().Descriptor().FullName()
	answer, known := e[name]
	if !known {
		return nil, fmt.Errorf("unexpected %s", name)
	}
	return answer(ctx, query)
}
