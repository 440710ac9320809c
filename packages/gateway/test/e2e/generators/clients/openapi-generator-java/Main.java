import gadgets.ApiClient;
import gadgets.ApiException;
import gadgets.api.GadgetsServiceApi;
import gadgets.model.Colour;
import gadgets.model.Gadget;
import gadgets.model.Pace;
import gadgets.model.Part;
import gadgets.model.PartBody;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Calls the server at the URL in the first argument with a generated client, and prints what it returns as JSON. */
public class Main {
  static final OffsetDateTime TIME = OffsetDateTime.parse("2024-02-29T12:30:15.250Z");
  static final byte[] DATA = {(byte) 0xfb, (byte) 0xff};
  static final Map<String, Object> ANY = Map.of("@type", "type.googleapis.com/gadgets.v1.Part", "label", "any");

  static final Gadget GADGET =
      new Gadget()
          .name("one")
          ._double(0.1)
          .single(0.5f)
          .int32(-2147483648)
          .int64("-9007199254740993")
          .uint32(4294967295L)
          .uint64("18446744073709551615")
          .sint32(-32)
          .sint64("-64")
          .fixed32(3000000000L)
          .fixed64("64")
          .sfixed32(32)
          .sfixed64("9007199254740993")
          .flag(true)
          .text("text")
          .data(DATA)
          .colour(Colour.COLOUR_DARK_BLUE)
          .pace(Pace.VERY_SLOW)
          .maybeText("")
          .maybeInt32(0)
          .maybeFlag(false)
          .maybeColour(Colour.COLOUR_UNSPECIFIED)
          .part(new Part().label("part").weight("1").addPartsItem(new Part().label("inner").paint("matt")))
          .timestamp(TIME)
          .duration("3.5s")
          .fieldMask("text,maybeText")
          .struct(Map.of("a", 1, "b", Arrays.asList(true, null, "x"), "c", Map.of("d", 2.5)))
          .value(List.of("v", Collections.singletonMap("w", null), 3))
          .listValue(List.of(1, "two", Map.of("three", List.of(3))))
          .any(Map.of("@type", ANY.get("@type"), "label", "any", "weight", "5"))
          .doubleValue(0.1)
          .floatValue(0.5f)
          .int64Value("9007199254740993")
          .uint64Value("18446744073709551615")
          .int32Value(0)
          .uint32Value(4294967295L)
          .boolValue(false)
          .stringValue("")
          .bytesValue(DATA)
          .texts(List.of("a", "b"))
          .ints(List.of(1, -2))
          .longs(List.of("9007199254740993"))
          .doubles(List.of(0.1, 2.0))
          .datas(List.of(DATA, new byte[1]))
          .colours(List.of(Colour.COLOUR_RED, Colour.COLOUR_DARK_BLUE))
          .parts(List.of(new Part().label("first"), new Part().label("second")))
          .timestamps(List.of(TIME))
          .anys(List.of(ANY))
          .labels(Map.of("a b", "c", "d", ""))
          .counts(Map.of("many", "9007199254740993"))
          .byNumber(Map.of("-7", "seven"))
          .byFlag(Map.of("true", Colour.COLOUR_RED))
          .byLabel(Map.of("part", new Part().label("part")))
          .copy(new Part().label("copy").gloss(0))
          .age("60s")
          .propertyClass("class")
          .type("type")
          .self("self")
          ._default("default");

  public static void main(String[] arguments) throws Exception {
    var client = new ApiClient();
    client.updateBaseUri(arguments[0]);
    var api = new GadgetsServiceApi(client);
    var outcomes = new LinkedHashMap<String, Object>();
    outcomes.put("save", api.gadgetsServiceSaveGadget("main street", "50%", GADGET, "text,maybeText", true));
    outcomes.put("get", api.gadgetsServiceGetGadget("main street", "50%"));
    outcomes.put("check", api.gadgetsServiceCheckGadget(GADGET));
    outcomes.put("add", api.gadgetsServiceAddPart("new part", new PartBody().weight("9007199254740993")));
    outcomes.put(
        "find",
        api.gadgetsServiceFindGadgets(
            "a b&c",
            -3,
            "9007199254740993",
            4294967295L,
            1.5,
            true,
            "+/8=",
            Colour.COLOUR_RED,
            Pace.VERY_SLOW,
            "",
            List.of("a,b", "c"),
            List.of(1, -2),
            List.of(Colour.COLOUR_RED, Colour.COLOUR_DARK_BLUE),
            TIME,
            "3.5s",
            "gadgets.name,gadgets.maybeText",
            "9007199254740993",
            2,
            "t"));
    outcomes.put("names", api.gadgetsServiceListNames("a/b", -3, "9007199254740993", 1.5, true, Colour.COLOUR_RED));
    var headers = api.gadgetsServiceGetHeadersWithHttpInfo(Pace.VERY_SLOW, 3);
    var count = Integer.valueOf(headers.getHeaders().get("x-count").get(0));
    outcomes.put("headers", Map.of("pace", headers.getData().getPace(), "count", count));
    outcomes.put("form", api.gadgetsServiceSendForm("Ada L.", 36, true, Pace.VERY_SLOW, List.of("a", "b")));
    outcomes.put("watch", api.gadgetsServiceWatchGadgets(2));
    try {
      api.gadgetsServiceGetGadget("main street", "none");
    } catch (ApiException error) {
      // The client does not parse errors.
      var body = client.getObjectMapper().readValue(error.getResponseBody(), gadgets.model.Error.class);
      outcomes.put("missing", Map.of("status", error.getCode(), "body", body));
    }
    var deleted = api.gadgetsServiceDeleteGadgetWithHttpInfo("main street", "50%");
    outcomes.put("delete", deleted.getStatusCode());
    System.out.println(client.getObjectMapper().writeValueAsString(outcomes));
  }
}
