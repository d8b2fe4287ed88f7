package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusal is a request and how it must be refused.
type refusal struct {
	name   string
	body   any
	status int
	code   string
}

func TestSpecCreate(t *testing.T) {
	t.Parallel()
	p := open(t)
	create := func(t *testing.T, body any, record fields) tree {
		t.Helper()
		envelope := object(fields{"conversation": conversationRecord(record)})
		return p.ask(t, "POST", "/conversations", body).fits(201, envelope).at("conversation")
	}
	idle := runtimeRecord(fields{"status": exactly("idle"), "stopReason": nil, "lastEventSeq": exactly(0)})

	t.Run("only_an_agent", func(t *testing.T) {
		made := create(t, map[string]any{"agentId": "full"}, fields{
			"agentId": exactly("full"), "agentName": exactly("Full Example"), "userId": nil, "title": nil,
			"metadata": exactly(map[string]any{}), "pinned": exactly(false), "budget": exactly(nil), "spentUsd": exactly(0), "runtime": idle,
		})
		require.Equal(t, made.text("createdAt"), made.text("updatedAt"))
	})
	t.Run("everything", func(t *testing.T) {
		create(t, map[string]any{
			"agentId": "priced", "userId": "create", "title": " \t Größe 🙂 \n", "budget": map[string]any{"maxCostUsd": 1.25, "onReach": "stop"},
			"metadata": map[string]any{"a": map[string]any{"b": []any{1, "x", nil, false}}, "ключ": "значение"},
			"unknown":  1, "id": "conv_mine", "pinned": true, "spentUsd": 9, "createdAt": "2001-01-01T00:00:00.000Z",
		}, fields{
			"userId": exactly("create"), "title": exactly("Größe 🙂"), "pinned": exactly(false), "spentUsd": exactly(0),
			"budget":   exactly(map[string]any{"maxCostUsd": 1.25, "onReach": "stop"}),
			"metadata": exactly(map[string]any{"a": map[string]any{"b": []any{1, "x", nil, false}}, "ключ": "значение"}), "runtime": idle,
		})
	})
	t.Run("is_readable_at_once", func(t *testing.T) {
		made := create(t, map[string]any{"agentId": "quick", "userId": "create"}, nil)
		read := p.ask(t, "GET", "/conversations/"+made.text("id"), nil).fits(200, anyObject)
		require.Equal(t, made.v, read.at("conversation").v)
	})
	t.Run("accepted_titles", func(t *testing.T) {
		for given, kept := range map[string]string{
			strings.Repeat("x", 200): strings.Repeat("x", 200), strings.Repeat("é", 200): strings.Repeat("é", 200),
			"   " + strings.Repeat("y", 200) + "   ": strings.Repeat("y", 200), `<b>"\&`: `<b>"\&`,
		} {
			create(t, map[string]any{"agentId": "quick", "title": given}, fields{"title": exactly(kept)})
		}
		for _, blank := range []any{"", "  \n\t ", nil} {
			create(t, map[string]any{"agentId": "quick", "title": blank}, fields{"title": nil})
		}
	})
	t.Run("metadata_numbers_keep_their_digits", func(t *testing.T) {
		made := p.ask(t, "POST", "/conversations", `{"agentId":"quick","metadata":{"big":12345678901234567890123,"small":1.10,"e":1e300}}`)
		require.Contains(t, made.text, `"metadata":{"big":12345678901234567890123,"small":1.10,"e":1e300}`)
	})
	t.Run("metadata_of_the_server_cannot_be_set", func(t *testing.T) {
		create(t, map[string]any{"agentId": "quick", "metadata": map[string]any{"parley.source": "me", "mine": 1}},
			fields{"metadata": exactly(map[string]any{"mine": 1})})
		create(t, map[string]any{"agentId": "quick", "metadata": nil}, fields{"metadata": exactly(map[string]any{})})
	})
	t.Run("budget_defaults", func(t *testing.T) {
		create(t, `{"agentId":"priced","budget":{"maxCostUsd":0.000000001}}`, fields{
			"budget": exactly(map[string]any{"maxCostUsd": 0.000000001, "onReach": "pause"}),
		})
		create(t, `{"agentId":"priced","budget":null}`, fields{"budget": exactly(nil)})
		create(t, `{"agentId":"thrifty"}`, fields{"budget": exactly(map[string]any{"maxCostUsd": 0.5, "onReach": "stop"})})
		create(t, `{"agentId":"thrifty","budget":{"maxCostUsd":3}}`, fields{"budget": exactly(map[string]any{"maxCostUsd": 3, "onReach": "pause"})})
	})
	t.Run("ids_differ", func(t *testing.T) {
		seen := map[string]bool{}
		for range 50 {
			seen[p.newConversation(t, "quick", "create")] = true
		}
		require.Len(t, seen, 50)
	})
}

func TestSpecCreateRefusals(t *testing.T) {
	t.Parallel()
	p := open(t)
	with := func(name string, value any) map[string]any { return map[string]any{"agentId": "priced", name: value} }
	for _, c := range []refusal{
		{"no_body", nil, 400, "VALIDATION_ERROR"},
		{"no_agent", `{}`, 400, "VALIDATION_ERROR"},
		{"empty_agent", with("agentId", ""), 400, "VALIDATION_ERROR"},
		{"null_agent", with("agentId", nil), 400, "VALIDATION_ERROR"},
		{"number_as_agent", with("agentId", 7), 400, "VALIDATION_ERROR"},
		{"unknown_agent", with("agentId", "nobody"), 404, "NOT_FOUND"},
		{"title_of_201_characters", with("title", strings.Repeat("é", 201)), 400, "VALIDATION_ERROR"},
		{"number_as_title", with("title", 1), 400, "VALIDATION_ERROR"},
		{"list_as_metadata", with("metadata", []int{1}), 400, "VALIDATION_ERROR"},
		{"text_as_metadata", with("metadata", "x"), 400, "VALIDATION_ERROR"},
		{"huge_metadata", with("metadata", map[string]string{"x": strings.Repeat("x", 65<<10)}), 400, "VALIDATION_ERROR"},
		{"number_as_user", with("userId", 1), 400, "VALIDATION_ERROR"},
		{"user_of_257_bytes", with("userId", strings.Repeat("u", 257)), 400, "VALIDATION_ERROR"},
		{"user_with_a_control_character", with("userId", "ann\u0085"), 400, "VALIDATION_ERROR"},
		{"empty_budget", with("budget", map[string]any{}), 400, "invalid_budget"},
		{"number_as_budget", with("budget", 3), 400, "invalid_budget"},
		{"list_as_budget", with("budget", []int{3}), 400, "invalid_budget"},
		{"budget_of_zero", with("budget", map[string]any{"maxCostUsd": 0}), 400, "invalid_budget"},
		{"budget_below_zero", with("budget", map[string]any{"maxCostUsd": -1}), 400, "invalid_budget"},
		{"budget_without_end", with("budget", map[string]any{"maxCostUsd": 1e300}), 400, "invalid_budget"},
		{"metadata_beyond_numbers", `{"agentId":"priced","metadata":{"e":[1e400]}}`, 400, "VALIDATION_ERROR"},
		{"budget_beyond_numbers", `{"agentId":"priced","budget":{"maxCostUsd":1e999}}`, 400, "invalid_budget"},
		{"text_as_cost", with("budget", map[string]any{"maxCostUsd": "1"}), 400, "invalid_budget"},
		{"null_as_cost", with("budget", map[string]any{"maxCostUsd": nil}), 400, "invalid_budget"},
		{"unknown_on_reach", with("budget", map[string]any{"maxCostUsd": 1, "onReach": "explode"}), 400, "invalid_budget"},
		{"budget_of_an_agent_without_price", map[string]any{"agentId": "quick", "budget": map[string]any{"maxCostUsd": 1}}, 400, "budget_unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.ask(t, "POST", "/conversations", c.body).refused(c.status, c.code)
		})
	}
}

// talked returns a conversation with a number of turns, and its messages oldest first.
func talked(t *testing.T, p *process, user string, turns int) (id string, messages []string) {
	t.Helper()
	id = p.newConversation(t, "quick", user)
	for n := range turns {
		turn := p.say(t, id, fmt.Sprintf("question %d", n))
		messages = append(messages, turn.text("message", "id"), turn.text("response", "id"))
	}
	return id, messages
}

func TestSpecRead(t *testing.T) {
	t.Parallel()
	p := open(t)
	id, all := talked(t, p, "read", 105)
	newestFirst := slices.Clone(all)
	slices.Reverse(newestFirst)

	for _, c := range []struct {
		name, query string
		page        messagesPage
		want        []string
	}{
		{"newest_100_oldest_first", "", messagesPage{100, "asc", true, false}, all[110:]},
		{"newest_first_on_demand", "?order=desc", messagesPage{100, "desc", true, false}, newestFirst[:100]},
		{"limit", "?limit=3", messagesPage{3, "asc", true, false}, all[207:]},
		{"limit_above_200_is_200", "?limit=201", messagesPage{200, "asc", true, false}, all[10:]},
		{"huge_limit_is_200", "?limit=9223372036854775807", messagesPage{200, "asc", true, false}, all[10:]},
		{"limit_0_is_the_default", "?limit=0", messagesPage{100, "asc", true, false}, all[110:]},
		{"negative_limit_is_the_default", "?limit=-1", messagesPage{100, "asc", true, false}, all[110:]},
		{"limit_that_is_no_number_is_the_default", "?limit=ten", messagesPage{100, "asc", true, false}, all[110:]},
		{"before", "?limit=4&before=" + all[50], messagesPage{4, "asc", true, true}, all[46:50]},
		{"before_newest_first", "?limit=4&order=desc&before=" + all[50], messagesPage{4, "desc", true, true}, newestFirst[160:164]},
		{"before_near_the_beginning", "?limit=4&before=" + all[3], messagesPage{4, "asc", false, true}, all[:3]},
		{"before_exactly_a_page_from_the_beginning", "?limit=4&before=" + all[4], messagesPage{4, "asc", false, true}, all[:4]},
		{"before_the_first", "?before=" + all[0], messagesPage{100, "asc", false, true}, nil},
		{"after", "?limit=4&after=" + all[50], messagesPage{4, "asc", true, true}, all[51:55]},
		{"after_newest_first", "?limit=4&order=desc&after=" + all[50], messagesPage{4, "desc", true, true}, newestFirst[155:159]},
		{"after_near_the_end", "?limit=4&after=" + all[206], messagesPage{4, "asc", true, false}, all[207:]},
		{"after_the_last", "?after=" + all[209], messagesPage{100, "asc", true, false}, nil},
		{"empty_cursors_are_none", "?limit=1&before=&after=&order=", messagesPage{1, "asc", true, false}, all[209:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := p.ask(t, "GET", "/conversations/"+id+c.query, nil).fits(200, conversationRead(c.page))
			require.Equal(t, append([]string{}, c.want...), texts(read.at("messages").list(), "id"))
			require.NoError(t, conversationRecord(fields{"userId": exactly("read"), "runtime": runtimeRecord(fields{
				"status": exactly("idle"), "stopReason": exactly("end_turn"), "lastEventSeq": exactly(420),
			})})(read.at("conversation").v))
		})
	}
	t.Run("walk_back_meets_every_message_once", func(t *testing.T) {
		var met []string
		for cursor := ""; ; {
			read := p.ask(t, "GET", "/conversations/"+id+"?limit=17&before="+cursor, nil).fits(200, anyObject)
			page := texts(read.at("messages").list(), "id")
			met, cursor = append(slices.Clone(page), met...), page[0]
			if !read.flag("messagesPage", "hasMoreBefore") {
				break
			}
		}
		require.Equal(t, all, met)
	})
	t.Run("walk_forth_meets_every_message_once", func(t *testing.T) {
		met := all[:1]
		for {
			read := p.ask(t, "GET", "/conversations/"+id+"?limit=19&after="+met[len(met)-1], nil).fits(200, anyObject)
			met = append(slices.Clone(met), texts(read.at("messages").list(), "id")...)
			if !read.flag("messagesPage", "hasMoreAfter") {
				break
			}
		}
		require.Equal(t, all, met)
	})
	t.Run("list_pages", func(t *testing.T) { listPages(t, p, id, all, newestFirst) })
}

// listPages is about the message list of the same conversation.
func listPages(t *testing.T, p *process, id string, all, newestFirst []string) {
	t.Helper()
	for _, c := range []struct {
		name, query   string
		limit, offset int
		hasMore       bool
		want          []string
	}{
		{"oldest_100_first", "", 100, 0, true, all[:100]},
		{"list_newest_first_on_demand", "?order=desc", 100, 0, true, newestFirst[:100]},
		{"limit_and_offset", "?limit=5&offset=7", 5, 7, true, all[7:12]},
		{"offset_newest_first", "?limit=5&offset=7&order=desc", 5, 7, true, newestFirst[7:12]},
		{"last_page_is_short", "?limit=5&offset=208", 5, 208, false, all[208:]},
		{"last_page_is_full", "?limit=5&offset=205", 5, 205, false, all[205:]},
		{"offset_at_the_end", "?offset=210", 100, 210, false, nil},
		{"offset_beyond_the_end", "?offset=1000000", 100, 1000000, false, nil},
		{"list_limit_above_200_is_200", "?limit=201", 200, 0, true, all[:200]},
		{"bad_numbers_are_the_defaults", "?limit=x&offset=-3", 100, 0, true, all[:100]},
		{"zero_and_fractions_are_the_defaults", "?limit=0&offset=1.5", 100, 0, true, all[:100]},
		{"limit_beyond_64_bits_is_200", "?limit=99999999999999999999", 200, 0, true, all[:200]},
		{"offset_beyond_64_bits_is_beyond_the_end", "?limit=9223372036854775807&offset=99999999999999999999", 200, 1<<31 - 1, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := p.ask(t, "GET", "/conversations/"+id+"/messages"+c.query, nil).fits(200, messagePage(fields{
				"total": exactly(210), "limit": exactly(c.limit), "offset": exactly(c.offset), "hasMore": exactly(c.hasMore),
			}))
			require.Equal(t, append([]string{}, c.want...), texts(page.at("messages").list(), "id"))
		})
	}
	t.Run("largest_offset", func(t *testing.T) {
		for _, order := range []string{"asc", "desc"} {
			page := p.ask(t, "GET", "/conversations/"+id+"/messages?offset=9223372036854775807&limit=200&order="+order, nil).fits(200, messagePage(nil))
			require.Empty(t, page.at("messages").list())
			require.False(t, page.flag("hasMore"))
		}
	})
	t.Run("both_reads_show_the_same_records", func(t *testing.T) {
		read := p.ask(t, "GET", "/conversations/"+id+"?limit=10", nil).fits(200, anyObject)
		list := p.ask(t, "GET", "/conversations/"+id+"/messages?limit=10&offset=200", nil).fits(200, anyObject)
		require.Equal(t, list.at("messages").v, read.at("messages").v)
	})
}

func TestSpecReadRefusals(t *testing.T) {
	t.Parallel()
	p := open(t)
	id, messages := talked(t, p, "read refusals", 1)
	_, others := talked(t, p, "read refusals", 1)

	t.Run("new_conversation_is_empty", func(t *testing.T) {
		empty := p.newConversation(t, "quick", "read refusals")
		read := p.ask(t, "GET", "/conversations/"+empty, nil).fits(200, conversationRead(messagesPage{100, "asc", false, false}))
		require.Empty(t, read.at("messages").list())
		p.ask(t, "GET", "/conversations/"+empty+"/messages", nil).fits(200, messagePage(fields{
			"messages": exactly([]int{}), "total": exactly(0), "hasMore": exactly(false),
		}))
	})
	for _, c := range []struct {
		name, query string
		status      int
		code        string
	}{
		{"before_and_after", "?before=" + messages[1] + "&after=" + messages[0], 400, "VALIDATION_ERROR"},
		{"unknown_before", "?before=msg_AAAAAAAAAAAAAAAAAAAAA", 404, "NOT_FOUND"},
		{"unknown_after", "?after=msg_AAAAAAAAAAAAAAAAAAAAA", 404, "NOT_FOUND"},
		{"message_of_another_conversation", "?before=" + others[0], 404, "NOT_FOUND"},
		{"cursor_that_is_no_id", "?after=%20%F0%9F%98%80", 404, "NOT_FOUND"},
		{"cursor_with_a_control_character", "?after=%00", 400, "VALIDATION_ERROR"},
		{"endless_cursor", "?after=" + strings.Repeat("m", 2000), 404, "NOT_FOUND"},
		{"unknown_order", "?order=sideways", 400, "VALIDATION_ERROR"},
		{"order_in_capitals", "?order=DESC", 400, "VALIDATION_ERROR"},
		{"order_that_is_not_utf8", "?order=%ff", 400, "VALIDATION_ERROR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.ask(t, "GET", "/conversations/"+id+c.query, nil).refused(c.status, c.code)
		})
	}
	t.Run("list_refuses_unknown_orders", func(t *testing.T) {
		p.ask(t, "GET", "/conversations/"+id+"/messages?order=up", nil).refused(400, "VALIDATION_ERROR")
	})
}
