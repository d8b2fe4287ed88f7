package clientapi

import (
	"context"
	"strconv"
	"time"

	"parley/actors/core/catalog"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/filing"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// draftVersion names what was last saved of an agent, published or not (conversationpb.Lease.agent_version).
const draftVersion = -1

// createAgentResponse runs the published version of an agent.
func (a *API) createAgentResponse(ctx context.Context, in *createAgentResponseIn) (*createdResponse, error) {
	r := &responding{order: &in.responseOrder, message: &in.Input, version: in.Version.Number}
	if err := a.prepare(ctx, r); err != nil {
		return nil, err
	}
	turn, run, err := a.respond(ctx, r)
	if err != nil || run != nil {
		return &createdResponse{run: run}, err
	}
	record, err := a.responseOf(ctx, r.id, in.Model.Text, turn)
	if err != nil {
		return nil, err
	}
	record.previous, record.version = in.PreviousResponseID.Text, max(r.version, 0)
	return &createdResponse{response: record}, nil
}

// responding is a Responses request on its way to a turn. The first three are given.
type responding struct {
	order   *responseOrder
	message *messageInput // to answer
	version int64         // that runs, see conversationpb.Lease
	history *transcript   // what comes beside the message; nil = nothing
	options *conversationpb.TurnOptions
	pairs   []byte // metadata of the message

	agent   *agentpb.Agent
	id      string               // of the session
	missing string               // how it is worded that there is no such session to continue; "" = a new one
	context []byte               // sealed
	inline  [][]*filing.Incoming // by message
	files   int
}

// respond has the message answered: by a turn that is waited for, or a run.
func (a *API) respond(ctx context.Context, r *responding) (*conversationpb.TurnResult, *runRecord, error) {
	if err := a.open(ctx, r); err != nil {
		return nil, nil, err
	}
	if r.order.Background {
		run, err := a.runInBackground(ctx, r)
		return nil, run, err
	}
	reply, err := a.askUntilSettled(ctx, a.sending(ctx, r, true))
	if err != nil {
		a.takeBack(ctx, r, err)
		return nil, nil, r.wording(err)
	}
	return reply.GetTurn(), nil, nil
}

// open makes the session, if it is a new one, and stores the files that came along.
func (a *API) open(ctx context.Context, r *responding) error {
	if r.missing == "" {
		if _, err := a.create(ctx, r.id, r.agent, &r.order.Budget, &conversationpb.Create{FirstMessage: r.allMessages()[0].Text}); err != nil {
			return err
		}
	}
	if err := a.attach(ctx, r); err != nil {
		a.takeBack(ctx, r, err)
		return r.wording(err)
	}
	return nil
}

// sending is the command with the message.
func (a *API) sending(ctx context.Context, r *responding, wait bool) *conversationpb.Command {
	command := a.command(ctx, r.id, "send")
	command.AgentVersion, command.RuntimeContext = r.version, r.context
	send := &conversationpb.Send{
		Agent: pricing(r.agent), Content: r.message.Text, FileIds: r.message.files(), Wait: wait, Metadata: r.pairs,
		OfAgent: r.agent.GetId(), // the rules look, so that the session need not be read before
		Options: r.options,
	}
	if r.history != nil {
		send.Earlier, send.Given = r.history.messages(), r.history.given
	}
	command.Body = &conversationpb.Command_Send{Send: send}
	return command
}

// prepare checks a request against agent and session, in the order of document 3, 8.1.
func (a *API) prepare(ctx context.Context, r *responding) error {
	order := r.order
	var err error
	if r.agent, err = a.activeAgent(ctx, order.Model.Text); err != nil {
		return err
	}
	switch {
	case r.version > 0:
		if err = a.knownVersion(ctx, r.agent, r.version); err != nil {
			return err
		}
	case r.version == 0:
		r.version = r.agent.GetRunningVersion() // what is answered as the version is what runs, whatever is published meanwhile
	}
	if failure := r.message.check(); failure != nil {
		return failure
	}
	if failure := a.checkCallback(ctx, order); failure != nil {
		return failure
	}
	if order.Background && !r.agent.GetBackground() {
		return backgroundDisabled()
	}
	if failure := a.place(ctx, r); failure != nil {
		return failure
	}
	if err = a.examine(r); err != nil {
		return err
	}
	r.context, err = a.sealContext(ctx, r.id, order.RuntimeContext)
	return err
}

// checkCallback refuses an address that could never be told anything.
func (a *API) checkCallback(ctx context.Context, order *responseOrder) *machine.Failure {
	if failure := order.checkCallback(); failure != nil {
		return failure
	}
	if to := order.CallbackURL.Text; to != "" && a.CheckCallback != nil {
		if err := a.CheckCallback(ctx, to); err != nil {
			return invalid("callback_url %s", err)
		}
	}
	return nil
}

// place finds the session that is continued, or an id for a new one.
func (a *API) place(ctx context.Context, r *responding) *machine.Failure {
	id, missing, failure := r.order.named()
	if failure != nil {
		return failure
	}
	named := false
	for _, message := range r.allMessages() {
		if !plausibleFiles(message.Files) {
			return invalid("a file_id of the input is none")
		}
		named = named || len(message.Files) > 0
	}
	switch {
	case id != "":
		r.id, r.missing = id, missing
		if !turns.Plausible(id) {
			return machine.Fail(failurepb.Code_SESSION_NOT_FOUND, "%s", missing)
		}
		return nil
	case named:
		return invalid("files belong to a session: store them in one, and continue it")
	}
	r.id = a.mint(ctx, "conv", "")
	return r.order.Budget.may(r.agent)
}

// allMessages is the messages of the user, the one to answer last.
func (r *responding) allMessages() []*messageInput {
	if r.history == nil {
		return []*messageInput{r.message}
	}
	return append(r.history.users(), r.message)
}

// examine refuses files that come along and that the agent does not take.
func (a *API) examine(r *responding) error {
	var all []*filing.Incoming
	for _, message := range r.allMessages() {
		files, failure := message.incoming()
		if failure != nil {
			return failure
		}
		r.inline = append(r.inline, files)
		all = append(all, files...)
	}
	if r.files = len(all); r.files == 0 {
		return nil
	}
	return sessionFailure(a.filer().Examine(nil, r.agent, all))
}

// attach stores the files that come along in the session.
func (a *API) attach(ctx context.Context, r *responding) error {
	if r.files == 0 {
		return nil
	}
	number := 0
	for at, message := range r.allMessages() {
		if len(r.inline[at]) == 0 {
			continue
		}
		state, err := a.session(ctx, r.id) // with the files before
		if err == nil && state.GetAgentId() != r.agent.GetId() {
			err = sessionNotFound()
		}
		if err != nil {
			return err
		}
		message.stored, err = a.filer().StoreAll(ctx, state, r.agent, r.inline[at], func() *conversationpb.Command {
			number++
			return a.command(ctx, r.id, "file "+strconv.Itoa(number))
		})
		if err != nil {
			return sessionFailure(err)
		}
	}
	return nil
}

// continued is the session that a request names: one of the caller's, and of the agent. nil when it names none.
func (a *API) continued(ctx context.Context, r *responding) (*conversationpb.State, error) {
	if r.missing == "" {
		return nil, nil //nolint:nilnil // a new one is no mistake
	}
	state, err := a.session(ctx, r.id)
	if err == nil && state.GetAgentId() != r.agent.GetId() {
		err = sessionNotFound()
	}
	return state, r.wording(err)
}

// wording says that there is no session in the words for how it was named.
func (r *responding) wording(err error) error {
	if r.missing != "" && isCode(err, failurepb.Code_SESSION_NOT_FOUND) {
		return machine.Fail(failurepb.Code_SESSION_NOT_FOUND, "%s", r.missing)
	}
	return err
}

// knownVersion refuses a version that was never published.
func (a *API) knownVersion(ctx context.Context, agent *agentpb.Agent, version int64) error {
	missing := machine.Fail(failurepb.Code_VERSION_NOT_FOUND, "Agent version not found")
	if a.Records == nil || agent.GetProjectId() == "" { // an agent of the configuration has none
		return missing
	}
	key := catalog.VersionKey(catalog.Key(agent.GetProjectId(), agent.GetId()), version)
	_, ok, err := a.Records.Find(ctx, catalog.AgentVersions, key)
	if err == nil && !ok {
		return missing
	}
	return err
}

// runInBackground answers with a run once that has its place.
func (a *API) runInBackground(ctx context.Context, r *responding) (*runRecord, error) {
	if _, err := a.continued(ctx, r); err != nil {
		return nil, err
	}
	create := &runpb.Create{
		AgentId: r.agent.GetId(), AgentVersion: r.version, ConversationId: r.id,
		Order:       &runpb.Order{Content: r.message.Text, FileIds: r.message.files(), RuntimeContext: r.context},
		CallbackUrl: r.order.CallbackURL.Text, PreviousResponseId: r.order.PreviousResponseID.Text,
	}
	id := a.mint(ctx, "run", r.id)
	if secret := r.order.CallbackSecret.Text; secret != "" {
		sealed, failed := a.Sealer.Seal([]byte(secret), runpb.SecretAbout(id))
		if failed != nil {
			a.takeBack(ctx, r, failed)
			return nil, failed
		}
		create.SealedSecret = sealed
	}
	reply, err := a.askNewRun(ctx, id, create)
	if err != nil {
		a.takeBack(ctx, r, err)
		return nil, err
	}
	return newRunRecord(reply), nil
}

// takeBack removes a session, or files of one, that were made for a request that was then refused. What an answer leaves open stays, and so does
// what a repetition of the request may be answered from.
func (a *API) takeBack(ctx context.Context, r *responding, refused error) {
	if !isRefusal(refused) || endpoint.RequestKey(ctx) != "" {
		return
	}
	if r.missing != "" {
		var stored []string
		for _, message := range r.allMessages() {
			stored = append(stored, message.stored...)
		}
		a.filer().Remove(ctx, stored, func() *conversationpb.Command { return a.command(ctx, r.id, "take back") })
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	command := a.command(ctx, r.id, "take back")
	command.Body = &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: true}}
	_, _ = a.ask(limited, command) // as well as it can: an empty session is no harm
}

const cleanUpTimeout = 5 * time.Second

// responseOf is the result of a turn as a response.
func (a *API) responseOf(
	ctx context.Context, id, agent string, turn *conversationpb.TurnResult,
) (*responseRecord, error) {
	if err := a.asker().Complete(ctx, id, turn); err != nil {
		return nil, sessionFailure(err)
	}
	return &responseRecord{session: id, agent: agent, turn: turn}, nil
}

// createdResponse is a response, or the run that it comes from.
type createdResponse struct {
	response *responseRecord
	run      *runRecord
}

// HTTPStatus implements endpoint.Statuser.
func (c *createdResponse) HTTPStatus() int {
	if c.run != nil {
		return statusAccepted
	}
	return statusOK
}

// AppendJSON implements endpoint.Appender.
func (c *createdResponse) AppendJSON(dst []byte) []byte {
	if c.run != nil {
		return c.run.AppendJSON(dst)
	}
	return c.response.AppendJSON(dst)
}

// Described implements openapi.Described.
func (c *createdResponse) Described() (value any, nullable bool) { return responseSchema{}, false }
