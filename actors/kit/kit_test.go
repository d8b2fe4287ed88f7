package kit_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/failurepb"
	"parley/proto/idempotencypb"
	"parley/proto/logpb"
)

type (
	step  = kit.Step[*idempotencypb.State, *idempotencypb.Command, *idempotencypb.Event]
	row   = kit.Transition[*idempotencypb.State, *idempotencypb.Command, *idempotencypb.Event]
	table = kit.Rules[*idempotencypb.State, *idempotencypb.Command, *idempotencypb.Event]
)

// lamp is an entity that is lit by Begin and goes out by Release; Keep is refused while it is out.
func lamp(rows ...row) *kit.Machine[*idempotencypb.State, *idempotencypb.Command, *idempotencypb.Event] {
	return table{
		Prefix: "lamp", Phases: []kit.Phase{"lit"},
		Phase:       func(*idempotencypb.State) kit.Phase { return "lit" },
		Transitions: rows,
		Apply: func(s *idempotencypb.State, event *idempotencypb.Event) *idempotencypb.State {
			if begun := event.GetBegun(); begun != nil {
				return proto.CloneOf(begun)
			}
			s.Answer = event.GetAnswered()
			return s
		},
		Project: func(_, _ *idempotencypb.State, _ []proto.Message, _ *logpb.Append) {},
	}.Machine()
}

func light(s *step, _ *idempotencypb.Begin) *machine.Failure {
	s.Emit(&idempotencypb.Event{Body: &idempotencypb.Event_Begun{Begun: &idempotencypb.State{Id: "lamp_1"}}})
	return nil
}

func rows() []row {
	return []row{
		kit.On((*idempotencypb.Command).GetBegin, light).From(kit.Absent).To("lit"),
		kit.On((*idempotencypb.Command).GetBegin, func(*step, *idempotencypb.Begin) *machine.Failure { return nil }).From("lit"),
		kit.On((*idempotencypb.Command).GetRelease, func(s *step, _ *idempotencypb.Release) *machine.Failure {
			s.Remove()
			return nil
		}).From("lit").To(kit.Absent),
		kit.On((*idempotencypb.Command).GetRelease, func(*step, *idempotencypb.Release) *machine.Failure { return nil }).From(kit.Absent),
		kit.On((*idempotencypb.Command).GetKeep, func(s *step, c *idempotencypb.Keep) *machine.Failure {
			before := s.State()
			s.Emit(&idempotencypb.Event{Body: &idempotencypb.Event_Answered{Answered: c.GetAnswer()}})
			if before.GetAnswer() != nil {
				return failure.Verbatim(failurepb.Code_VALIDATION, "a state that was handed out has changed")
			}
			return nil
		}).From("lit"),
		kit.Refuse((*idempotencypb.Command).GetKeep, func(*step) *machine.Failure {
			return failure.Verbatim(failurepb.Code_NOT_FOUND, "it is out")
		}).From(kit.Absent),
		kit.On((*idempotencypb.Command).GetDue, func(*step, *idempotencypb.Due) *machine.Failure { return nil }).From(kit.Absent, "lit"),
	}
}

func TestRulesRun(t *testing.T) {
	entity := machinetest.NewEntity(lamp(rows()...))
	do := func(command *idempotencypb.Command) *machine.Failure {
		_, failure, err := entity.Do(command, machine.Env{})
		require.NoError(t, err)
		return failure
	}
	begin := &idempotencypb.Command{Body: &idempotencypb.Command_Begin{Begin: &idempotencypb.Begin{}}}
	keep := &idempotencypb.Command{Body: &idempotencypb.Command_Keep{Keep: &idempotencypb.Keep{Answer: &idempotencypb.Answer{Status: 1}}}}
	require.Equal(t, failurepb.Code_NOT_FOUND, do(keep).Code)
	require.Nil(t, do(begin))
	require.Nil(t, do(keep))
	require.EqualValues(t, 1, entity.Machine.Seq(entity.State))
	require.Equal(t, failurepb.Code_VALIDATION, do(&idempotencypb.Command{}).Code, "no body that this version knows")
	require.Nil(t, do(&idempotencypb.Command{Body: &idempotencypb.Command_Release{Release: &idempotencypb.Release{}}}))
	require.Nil(t, entity.State)
	require.Nil(t, entity.Machine.OnActivate(entity.State, machine.Env{}))
}

func TestTableIsComplete(t *testing.T) {
	require.NoError(t, lamp(rows()...).Check())
	require.ErrorContains(t, lamp(rows()[1:]...).Check(), "begin of an entity that is absent: 0 rows")
	require.ErrorContains(t, lamp(append(rows(), rows()[0])...).Check(), "begin of an entity that is absent: 2 rows")
	require.ErrorContains(t, lamp(rows()[:6]...).Check(), "due: no row says what it does")
	astray := rows()
	astray[0] = astray[0].To("on fire")
	require.ErrorContains(t, lamp(astray...).Check(), `there is no phase "on fire"`)
}

func TestStepsKeepToTheTable(t *testing.T) {
	wrong := rows()
	wrong[0] = wrong[0].To(kit.Absent)
	_, failure, err := machinetest.NewEntity(lamp(wrong...)).Do(
		&idempotencypb.Command{Body: &idempotencypb.Command_Begin{Begin: &idempotencypb.Begin{}}}, machine.Env{})
	require.Nil(t, failure)
	require.ErrorContains(t, err, "Begin led from absent to lit, which the table does not allow")
}
