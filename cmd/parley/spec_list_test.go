package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpecList(t *testing.T) {
	t.Parallel()
	p := open(t)
	const user = "list"
	var all []string // oldest first
	for n := range 24 {
		agent := "quick"
		if n%4 == 0 {
			agent = "words"
		}
		all = append(all, p.newConversation(t, agent, user))
		p.tick(t)
	}
	p.newConversation(t, "quick", "list of somebody else")
	pins := []string{all[3], all[10], all[15]}
	for _, id := range pins {
		p.ask(t, "PATCH", "/conversations/"+id, `{"pinned":true}`).fits(200, anyObject)
		p.tick(t)
	}
	p.ask(t, "PATCH", "/conversations/"+all[1], `{"title":"touched last"}`).fits(200, anyObject)

	unpinned := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(pins, id) })
	down := func(ids []string) []string {
		reversed := slices.Clone(ids)
		slices.Reverse(reversed)
		return reversed
	}
	pinnedFirst := slices.Concat(down(pins), down(unpinned))
	byUpdate := slices.Concat(down(pins), []string{all[1]}, down(slices.DeleteFunc(slices.Clone(unpinned), func(id string) bool { return id == all[1] })))
	plainByUpdate := slices.Concat([]string{all[1]}, byUpdate[:3], byUpdate[4:])
	words := []string{all[20], all[16], all[12], all[8], all[4], all[0]}

	for _, c := range []struct {
		name, query          string
		total, limit, offset int
		want                 []string
	}{
		{"first_20_newest_first_pinned_first", "", 24, 20, 0, pinnedFirst[:20]},
		{"second_page", "&offset=20", 24, 20, 20, pinnedFirst[20:]},
		{"page_within_the_pinned", "&limit=2", 24, 2, 0, pinnedFirst[:2]},
		{"page_over_the_edge_of_the_pinned", "&limit=3&offset=2", 24, 3, 2, pinnedFirst[2:5]},
		{"page_after_the_pinned", "&limit=3&offset=3", 24, 3, 3, pinnedFirst[3:6]},
		{"last_item", "&limit=1&offset=23", 24, 1, 23, pinnedFirst[23:]},
		{"all_in_one", "&limit=100", 24, 100, 0, pinnedFirst},
		{"list_limit_above_the_most_is_the_most", "&limit=5000", 24, 100, 0, pinnedFirst},
		{"list_offset_at_the_end", "&offset=24", 24, 20, 24, nil},
		{"oldest_first", "&order=asc&limit=50", 24, 50, 0, slices.Concat(pins, unpinned)},
		{"pinned_none", "&pinned=none&limit=50", 24, 50, 0, down(all)},
		{"pinned_none_in_the_middle", "&pinned=none&limit=5&offset=7", 24, 5, 7, down(all)[7:12]},
		{"pinned_none_oldest_first", "&pinned=none&order=asc&limit=50", 24, 50, 0, all},
		{"by_update", "&orderBy=updatedAt&limit=50", 24, 50, 0, byUpdate},
		{"by_update_pinned_none", "&orderBy=updatedAt&pinned=none&limit=50", 24, 50, 0, plainByUpdate},
		{"by_update_oldest_first", "&orderBy=updatedAt&pinned=none&order=asc&limit=50", 24, 50, 0, down(plainByUpdate)},
		{"explicit_defaults", "&orderBy=createdAt&order=desc&pinned=first&limit=20&offset=0", 24, 20, 0, pinnedFirst[:20]},
		{"empty_fields_are_absent_ones", "&orderBy=&order=&pinned=&limit=&offset=&agentId=", 24, 20, 0, pinnedFirst[:20]},
		{"bad_numbers_are_defaults", "&limit=many&offset=-5", 24, 20, 0, pinnedFirst[:20]},
		{"zero_limit_is_the_default", "&limit=0&offset=0.5", 24, 20, 0, pinnedFirst[:20]},
		{"of_one_agent", "&agentId=words&limit=50", 6, 50, 0, words},
		{"of_one_agent_second_page", "&agentId=words&limit=4&offset=4", 6, 4, 4, words[4:]},
		{"of_an_unknown_agent", "&agentId=nobody", 0, 20, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := p.ask(t, "GET", "/conversations?userId="+user+c.query, nil).fits(200, conversationPage(fields{
				"total": exactly(c.total), "limit": exactly(c.limit), "offset": exactly(c.offset),
				"hasMore": exactly(c.offset+len(c.want) < c.total),
			}))
			require.Equal(t, append([]string{}, c.want...), texts(page.at("conversations").list(), "id"))
		})
	}
	t.Run("pages_hold_each_once", func(t *testing.T) { pagesHoldEachOnce(t, p, user) })
	t.Run("rows_are_whole_records", func(t *testing.T) {
		for _, row := range p.ask(t, "GET", "/conversations?limit=5&userId="+user, nil).fits(200, anyObject).at("conversations").list() {
			read := p.ask(t, "GET", "/conversations/"+row.text("id"), nil).fits(200, anyObject)
			require.Equal(t, read.at("conversation").v, row.v)
		}
	})
}

// pagesHoldEachOnce walks a user's list in pages of every small size.
func pagesHoldEachOnce(t *testing.T, p *process, user string) {
	t.Helper()
	for _, pinned := range []string{"first", "none"} {
		path := "/conversations?userId=" + user + "&pinned=" + pinned
		whole := texts(p.ask(t, "GET", path+"&limit=100", nil).fits(200, anyObject).at("conversations").list(), "id")
		for size := 1; size <= 7; size += 2 {
			var met []string
			for more := true; more; {
				page := p.ask(t, "GET", fmt.Sprintf("%s&limit=%d&offset=%d", path, size, len(met)), nil).fits(200, anyObject)
				met, more = append(met, texts(page.at("conversations").list(), "id")...), page.flag("hasMore")
			}
			require.Equal(t, whole, met)
		}
	}
}

// tick waits until the clock of the server shows another millisecond.
func (p *process) tick(t *testing.T) {
	t.Helper()
	now := func() string {
		return p.ask(t, "POST", "/conversations", `{"agentId":"quick"}`).fits(201, anyObject).text("conversation", "createdAt")
	}
	for began := now(); now() == began; {
	}
}

func TestSpecListRules(t *testing.T) {
	t.Parallel()
	p := open(t)
	t.Run("without_anybody_is_401", func(t *testing.T) {
		p.newConversation(t, "quick", "")
		for _, query := range []string{"", "?userId=", "?agentId=quick", "?limit=5"} {
			p.ask(t, "GET", "/conversations"+query, nil).refused(401, "identity_required")
		}
	})
	t.Run("of_a_new_user_is_empty", func(t *testing.T) {
		p.ask(t, "GET", "/conversations?userId=nobody+yet", nil).fits(200, object(fields{
			"conversations": exactly([]int{}), "total": exactly(0), "limit": exactly(20), "offset": exactly(0), "hasMore": exactly(false),
		}))
	})
	t.Run("users_with_odd_names_stay_apart", func(t *testing.T) {
		names := map[string]string{"a/b": "a%2Fb", "a%2Fb": "a%252Fb", "~a": "~a", "Ä 🙂": "%C3%84%20%F0%9F%99%82", "a+b": "a%2Bb", "a": "a"}
		made := map[string]string{}
		for name := range names {
			made[name] = p.newConversation(t, "quick", name)
		}
		for name, escaped := range names {
			page := p.ask(t, "GET", "/conversations?userId="+escaped, nil).fits(200, conversationPage(fields{"total": exactly(1)}))
			require.Equal(t, []string{made[name]}, texts(page.at("conversations").list(), "id"), name)
			require.Equal(t, name, page.at("conversations").list()[0].text("userId"))
		}
	})
	t.Run("follows_every_change", func(t *testing.T) {
		const path = "/conversations?userId=list+changes"
		first := p.newConversation(t, "quick", "list changes")
		p.tick(t)
		second := p.newConversation(t, "quick", "list changes")
		listed := func(want ...string) {
			t.Helper()
			page := p.ask(t, "GET", path, nil).fits(200, conversationPage(fields{"total": exactly(len(want))}))
			require.Equal(t, want, texts(page.at("conversations").list(), "id"))
		}
		listed(second, first)
		p.ask(t, "PATCH", "/conversations/"+first, `{"pinned":true}`).fits(200, anyObject)
		listed(first, second)
		p.ask(t, "PATCH", "/conversations/"+first, `{"pinned":false}`).fits(200, anyObject)
		listed(second, first)
		p.tick(t)
		p.say(t, first, "hello")
		page := p.ask(t, "GET", path+"&orderBy=updatedAt&limit=1", nil).fits(200, anyObject)
		require.Equal(t, []string{first}, texts(page.at("conversations").list(), "id"), "a turn makes it the newest by update")
		require.Equal(t, "end_turn", page.at("conversations").list()[0].text("runtime", "stopReason"))
		p.ask(t, "DELETE", "/conversations/"+second, nil).empty(204)
		listed(first)
	})
	t.Run("largest_list_offset", func(t *testing.T) {
		id := p.newConversation(t, "quick", "list offsets")
		p.newConversation(t, "quick", "list offsets")
		p.ask(t, "PATCH", "/conversations/"+id, `{"pinned":true}`).fits(200, anyObject)
		for _, pinned := range []string{"first", "none"} {
			for _, offset := range []string{"9223372036854775807", "9223372036854775800", "1000000000", "3"} {
				p.ask(t, "GET", "/conversations?userId=list+offsets&limit=100&pinned="+pinned+"&offset="+offset, nil).fits(200, conversationPage(fields{
					"conversations": exactly([]int{}), "total": exactly(2), "hasMore": exactly(false),
				}))
			}
		}
	})
	for _, c := range []struct{ name, query string }{
		{"unknown_order_by", "orderBy=title"},
		{"unknown_order", "order=up"},
		{"unknown_pinned", "pinned=only"},
		{"order_by_in_capitals", "orderBy=CreatedAt"},
		{"agent_that_is_not_utf8", "agentId=%ff"},
		{"user_that_is_not_utf8", "userId=%ff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.ask(t, "GET", "/conversations?"+c.query+"&userId=list", nil).refused(400, "VALIDATION_ERROR")
		})
	}
	t.Run("user_of_257_bytes_is_400", func(t *testing.T) {
		p.ask(t, "GET", "/conversations?userId="+strings.Repeat("u", 257), nil).refused(400, "VALIDATION_ERROR")
		p.ask(t, "GET", "/conversations?userId="+strings.Repeat("u", 256), nil).fits(200, conversationPage(nil))
	})
}
