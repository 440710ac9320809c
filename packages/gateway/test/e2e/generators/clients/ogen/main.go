// Calls the server at the URL in the first argument with a generated client, and prints what it returns as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"

	"client/gadgets"

	"github.com/go-faster/jx"
)

var (
	at      = time.Date(2024, 2, 29, 12, 30, 15, 250_000_000, time.UTC)
	data    = []byte{0xfb, 0xff}
	partURL = jx.Raw(`"type.googleapis.com/gadgets.v1.Part"`)
	text    = gadgets.NewOptString
)

var gadget = gadgets.Gadget{
	Name:        text("one"),
	Double:      gadgets.NewOptFloat64(0.1),
	Single:      gadgets.NewOptFloat32(0.5),
	Int32:       gadgets.NewOptInt32(-2147483648),
	Int64:       gadgets.NewOptStringInt64(-9007199254740993),
	Uint32:      gadgets.NewOptInt64(4294967295),
	Uint64:      gadgets.NewOptStringUint64(18446744073709551615),
	Sint32:      gadgets.NewOptInt32(-32),
	Sint64:      gadgets.NewOptStringInt64(-64),
	Fixed32:     gadgets.NewOptInt64(3000000000),
	Fixed64:     gadgets.NewOptStringUint64(64),
	Sfixed32:    gadgets.NewOptInt32(32),
	Sfixed64:    gadgets.NewOptStringInt64(9007199254740993),
	Flag:        gadgets.NewOptBool(true),
	Text:        text("text"),
	Data:        data,
	Colour:      gadgets.NewOptColour(gadgets.ColourCOLOURDARKBLUE),
	Pace:        gadgets.NewOptPace(gadgets.PaceVerySlow),
	MaybeText:   text(""),
	MaybeInt32:  gadgets.NewOptInt32(0),
	MaybeFlag:   gadgets.NewOptBool(false),
	MaybeColour: gadgets.NewOptColour(gadgets.ColourCOLOURUNSPECIFIED),
	Part: gadgets.NewOptPart(gadgets.Part{
		Label:  text("part"),
		Weight: gadgets.NewOptStringInt64(1),
		Parts:  []gadgets.Part{{Label: text("inner"), Paint: text("matt")}},
	}),
	Timestamp:   gadgets.NewOptDateTime(at),
	Duration:    text("3.5s"),
	FieldMask:   text("text,maybeText"),
	Struct:      gadgets.NewOptGadgetStruct(gadgets.GadgetStruct{"a": jx.Raw(`1`), "b": jx.Raw(`[true,null,"x"]`), "c": jx.Raw(`{"d":2.5}`)}),
	Value:       jx.Raw(`["v",{"w":null},3]`),
	ListValue:   []jx.Raw{jx.Raw(`1`), jx.Raw(`"two"`), jx.Raw(`{"three":[3]}`)},
	Any:         gadgets.NewOptGadgetAny(gadgets.GadgetAny{"@type": partURL, "label": jx.Raw(`"any"`), "weight": jx.Raw(`"5"`)}),
	DoubleValue: gadgets.NewOptFloat64(0.1),
	FloatValue:  gadgets.NewOptFloat32(0.5),
	Int64Value:  gadgets.NewOptStringInt64(9007199254740993),
	Uint64Value: gadgets.NewOptStringUint64(18446744073709551615),
	Int32Value:  gadgets.NewOptInt32(0),
	Uint32Value: gadgets.NewOptInt64(4294967295),
	BoolValue:   gadgets.NewOptBool(false),
	StringValue: text(""),
	BytesValue:  data,
	Texts:       []string{"a", "b"},
	Ints:        []int32{1, -2},
	Longs:       []int64{9007199254740993},
	Doubles:     []float64{0.1, 2},
	Datas:       [][]byte{data, {0}},
	Colours:     []gadgets.Colour{gadgets.ColourCOLOURRED, gadgets.ColourCOLOURDARKBLUE},
	Parts:       []gadgets.Part{{Label: text("first")}, {Label: text("second")}},
	Timestamps:  []time.Time{at},
	Anys:        []gadgets.GadgetAnysItem{{"@type": partURL, "label": jx.Raw(`"any"`)}},
	Labels:      gadgets.NewOptGadgetLabels(gadgets.GadgetLabels{"a b": "c", "d": ""}),
	Counts:      gadgets.NewOptGadgetCounts(gadgets.GadgetCounts{"many": 9007199254740993}),
	ByNumber:    gadgets.NewOptGadgetByNumber(gadgets.GadgetByNumber{"-7": "seven"}),
	ByFlag:      gadgets.NewOptGadgetByFlag(gadgets.GadgetByFlag{"true": gadgets.ColourCOLOURRED}),
	ByLabel:     gadgets.NewOptGadgetByLabel(gadgets.GadgetByLabel{"part": {Label: text("part")}}),
	Copy:        gadgets.NewOptPart(gadgets.Part{Label: text("copy"), Gloss: gadgets.NewOptInt32(0)}),
	Age:         text("60s"),
	Class:       text("class"),
	Type:        text("type"),
	Self:        text("self"),
	Default:     text("default"),
}

// observed records the status of the last response.
type observed struct{ status int }

func (c *observed) Do(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		c.status = response.StatusCode
	}
	return response, err
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	client := &observed{}
	api := must(gadgets.NewClient(os.Args[1], gadgets.WithClient(client)))
	ctx := context.Background()

	save := must(api.GadgetsServiceSaveGadget(ctx, &gadget, gadgets.GadgetsServiceSaveGadgetParams{
		Shop:         "main street",
		GadgetID:     "50%",
		UpdateMask:   text("text,maybeText"),
		ValidateOnly: gadgets.NewOptBool(true),
	}))
	get := must(api.GadgetsServiceGetGadget(ctx, gadgets.GadgetsServiceGetGadgetParams{Shop: "main street", GadgetID: "50%"}))
	check := must(api.GadgetsServiceCheckGadget(ctx, gadgets.NewOptGadget(gadget)))
	add := must(api.GadgetsServiceAddPart(
		ctx,
		gadgets.NewOptPartBody(gadgets.PartBody{Weight: gadgets.NewOptStringInt64(9007199254740993)}),
		gadgets.GadgetsServiceAddPartParams{Label: "new part"},
	))
	find := must(api.GadgetsServiceFindGadgets(ctx, gadgets.GadgetsServiceFindGadgetsParams{
		Text:      text("a b&c"),
		Small:     gadgets.NewOptInt32(-3),
		Large:     gadgets.NewOptStringInt64(9007199254740993),
		Unsigned:  gadgets.NewOptInt64(4294967295),
		Ratio:     gadgets.NewOptFloat64(1.5),
		Flag:      gadgets.NewOptBool(true),
		Data:      text("+/8="),
		Colour:    gadgets.NewOptColour(gadgets.ColourCOLOURRED),
		Pace:      gadgets.NewOptPace(gadgets.PaceVerySlow),
		Maybe:     text(""),
		Texts:     []string{"a,b", "c"},
		Ints:      []int32{1, -2},
		Colours:   []gadgets.Colour{gadgets.ColourCOLOURRED, gadgets.ColourCOLOURDARKBLUE},
		Since:     gadgets.NewOptDateTime(at),
		Within:    text("3.5s"),
		ReadMask:  text("gadgets.name,gadgets.maybeText"),
		Most:      gadgets.NewOptStringInt64(9007199254740993),
		PageSize:  gadgets.NewOptInt32(2),
		PageToken: text("t"),
	}))
	names := must(api.GadgetsServiceListNames(ctx, gadgets.GadgetsServiceListNamesParams{
		Text:   "a/b",
		Small:  -3,
		Large:  9007199254740993,
		Ratio:  1.5,
		Flag:   true,
		Colour: gadgets.ColourCOLOURRED,
	}))
	header := must(api.GadgetsServiceGetHeaders(ctx, gadgets.GadgetsServiceGetHeadersParams{
		XPace:  gadgets.NewOptPace(gadgets.PaceVerySlow),
		XCount: gadgets.NewOptInt32(3),
	}))
	form := must(api.GadgetsServiceSendForm(ctx, gadgets.NewOptGadgetsServiceSendFormReq(gadgets.GadgetsServiceSendFormReq{
		UserName: text("Ada L."),
		Age:      gadgets.NewOptInt32(36),
		Admin:    gadgets.NewOptBool(true),
		Pace:     gadgets.NewOptPace(gadgets.PaceVerySlow),
		Tags:     []string{"a", "b"},
	})))
	watch := must(api.GadgetsServiceWatchGadgets(ctx, gadgets.GadgetsServiceWatchGadgetsParams{Count: gadgets.NewOptInt32(2)}))
	_, err := api.GadgetsServiceGetGadget(ctx, gadgets.GadgetsServiceGetGadgetParams{Shop: "main street", GadgetID: "none"})
	var missing *gadgets.ErrorStatusCode
	errors.As(err, &missing)
	if err := api.GadgetsServiceDeleteGadget(ctx, gadgets.GadgetsServiceDeleteGadgetParams{Shop: "main street", GadgetID: "50%"}); err != nil {
		panic(err)
	}

	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"save":    save,
		"get":     get,
		"check":   check,
		"add":     add,
		"find":    find,
		"names":   names,
		"headers": map[string]any{"pace": header.Response.Pace.Value, "count": header.XCount.Value},
		"form":    form,
		"watch":   watch,
		"missing": map[string]any{"status": missing.StatusCode, "body": &missing.Response},
		"delete":  client.status,
	})
}
