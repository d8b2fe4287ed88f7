package clientapi

import (
	"context"
	"slices"
	"strconv"
	"time"

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
func (a *API) createAgentResponse(ctx context.Context, in *createResponseIn) (*createdResponse, error) {
	return a.respond(ctx, in, in.Version.Number)
}

// createResponse runs the draft of an agent, unless a version is pinned.
func (a *API) createResponse(ctx context.Context, in *createResponseIn) (*createdResponse, error) {
	if in.Version.Number != 0 {
		return a.respond(ctx, in, in.Version.Number)
	}
	return a.respond(ctx, in, draftVersion)
}

// responding is what a Responses request comes to, once it is known to be in order.
type responding struct {
	in      *createResponseIn
	agent   *agentpb.Agent
	version int64  // that runs, see conversationpb.Lease
	id      string // of the session
	missing string // how it is worded that there is no such session to continue; "" = a new one
	context []byte // sealed
	inline  []*filing.Incoming
	stored  []string // ids of the inline files, once they are files of the session
}

func (a *API) respond(ctx context.Context, in *createResponseIn, version int64) (*createdResponse, error) {
	r, err := a.prepare(ctx, in, version)
	if err != nil {
		return nil, err
	}
	if r.missing == "" {
		if _, err = a.create(ctx, r.id, r.agent, &in.Budget, &conversationpb.Create{FirstMessage: r.in.Input.Text}); err != nil {
			return nil, err
		}
	}
	if err = a.attach(ctx, r); err != nil {
		a.takeBack(ctx, r, err)
		return nil, r.wording(err)
	}
	if in.Background {
		return a.runInBackground(ctx, r)
	}
	command := a.command(ctx, r.id, "send")
	command.AgentVersion, command.RuntimeContext = r.version, r.context
	command.Body = &conversationpb.Command_Send{Send: &conversationpb.Send{
		Agent: pricing(r.agent), Content: in.Input.Text, FileIds: r.files(), Wait: true,
		OfAgent: r.agent.GetId(), // the rules look, so that the session need not be read before
	}}
	reply, err := a.askUntilSettled(ctx, command)
	if err != nil {
		a.takeBack(ctx, r, err)
		return nil, r.wording(err)
	}
	turn := reply.GetTurn()
	record, err := a.responseOf(ctx, r.id, in.Model.Text, turn)
	if err != nil {
		return nil, err
	}
	record.previous, record.version = in.PreviousResponseID.Text, max(r.version, 0)
	return &createdResponse{response: record}, nil
}

// prepare checks a request against agent and session, in the order of document 3, 8.1.
func (a *API) prepare(ctx context.Context, in *createResponseIn, version int64) (*responding, error) {
	agent, err := a.activeAgent(ctx, in.Model.Text)
	if err != nil {
		return nil, err
	}
	switch {
	case version > 0:
		if err = a.knownVersion(ctx, agent, version); err != nil {
			return nil, err
		}
	case version == 0:
		version = agent.GetRunningVersion() // what is answered as the version is what runs, whatever is published meanwhile
	}
	if failure := in.checkInput(); failure != nil {
		return nil, failure
	}
	if in.Background && !agent.GetBackground() {
		return nil, backgroundDisabled()
	}
	r := &responding{in: in, agent: agent, version: version}
	id, missing, failure := in.named()
	switch {
	case failure != nil:
		return nil, failure
	case !plausibleFiles(in.Input.Files):
		return nil, invalid("a file_id of the input is none")
	case id != "":
		r.id, r.missing = id, missing
		if !turns.Plausible(id) {
			return nil, r.wording(sessionNotFound())
		}
	case len(in.Input.Files) > 0:
		return nil, invalid("files belong to a session: store them in one, and continue it")
	default:
		r.id = a.mint(ctx, "conv", "")
		if failure = in.Budget.may(agent); failure != nil {
			return nil, failure
		}
	}
	if r.inline, failure = in.Input.incoming(); failure != nil {
		return nil, failure
	}
	if len(r.inline) > 0 {
		if err = a.filer().Examine(nil, agent, r.inline); err != nil {
			return nil, sessionFailure(err)
		}
	}
	r.context, err = a.sealContext(ctx, r.id, in.RuntimeContext)
	return r, err
}

// attach stores the files that come with the message in the session.
func (a *API) attach(ctx context.Context, r *responding) error {
	if len(r.inline) == 0 {
		return nil
	}
	state, err := a.session(ctx, r.id)
	if err == nil && state.GetAgentId() != r.agent.GetId() {
		err = sessionNotFound()
	}
	if err != nil {
		return err
	}
	number := 0
	r.stored, err = a.filer().StoreAll(ctx, state, r.agent, r.inline, func() *conversationpb.Command {
		number++
		return a.command(ctx, r.id, "file "+strconv.Itoa(number))
	})
	return sessionFailure(err)
}

// files is the ids of all files of the message.
func (r *responding) files() []string { return slices.Concat(r.in.Input.Files, r.stored) }

// continued is the session that a request names: one of the caller's, and of the agent. nil when it names none.
func (a *API) continued(ctx context.Context, r *responding) error {
	if r.missing == "" {
		return nil
	}
	state, err := a.session(ctx, r.id)
	if err == nil && state.GetAgentId() != r.agent.GetId() {
		err = sessionNotFound()
	}
	return r.wording(err)
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
	key := endpoint.VersionKey(endpoint.RecordKey(agent.GetProjectId(), agent.GetId()), version)
	_, ok, err := a.Records.Find(ctx, endpoint.AgentVersions, key)
	if err == nil && !ok {
		return missing
	}
	return err
}

// runInBackground answers with a run once that has its place.
func (a *API) runInBackground(ctx context.Context, r *responding) (*createdResponse, error) {
	if err := a.continued(ctx, r); err != nil {
		return nil, err
	}
	create := &runpb.Create{
		AgentId: r.agent.GetId(), AgentVersion: r.version, ConversationId: r.id,
		Order:       &runpb.Order{Content: r.in.Input.Text, FileIds: r.files(), RuntimeContext: r.context},
		CallbackUrl: r.in.CallbackURL.Text, PreviousResponseId: r.in.PreviousResponseID.Text,
	}
	id := a.mint(ctx, "run", r.id)
	if secret := r.in.CallbackSecret.Text; secret != "" {
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
	return &createdResponse{run: newRunRecord(reply)}, nil
}

// takeBack removes a session, or files of one, that were made for a request that was then refused. What an answer leaves open stays, and so does
// what a repetition of the request may be answered from.
func (a *API) takeBack(ctx context.Context, r *responding, refused error) {
	if !isRefusal(refused) || endpoint.RequestKey(ctx) != "" {
		return
	}
	if r.missing != "" {
		a.filer().Remove(ctx, r.stored, func() *conversationpb.Command { return a.command(ctx, r.id, "take back") })
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
