// word_lists.cpp - see word_lists.h.
#include "tasks/word_lists.h"

#include <algorithm>

namespace pith::corpus {
namespace {

constexpr std::string_view kAdjectives =
    "able absent acid active agile alert alive aloof amber ample ancient angry annual anxious apt arid ashen awake aware "
    "awful bald bare basic beige bent big bitter black blank bleak blind blond blue blunt bold brave brief bright brisk "
    "broad bronze brown bumpy busy calm careful casual central cheap chief chilly chubby civil clean clear clever close "
    "cloudy clumsy coarse cold common compact cool coral corny cozy crazy creamy crimson crisp crooked crude cruel curious "
    "curly cute cyan daily damp dapper dark dear deep dense dim direct dirty distant dizzy double drab dreary dry dual due "
    "dull dusty eager early earthy easy eerie elastic elder elegant empty equal even exact exotic extra faded faint fair "
    "faithful false famous fancy fast fat fatal feeble festive few fierce fiery final fine firm first fit flaky flashy flat "
    "fluffy fond foolish formal fragile frail frank free fresh friendly frosty frozen frugal full funny furry fuzzy gentle "
    "giant gifted glad gleaming global gloomy glossy golden good graceful grand grateful grave gray great greedy green grim "
    "gritty grumpy handy happy hard harsh hasty hazy healthy heavy helpful hidden high hollow holy honest hot huge humble "
    "humid hungry icy ideal idle immense indigo inner intent iron ivory jade jagged jolly jovial joyful juicy keen kind "
    "known lame large last late lavish lazy lean legal lemon level light likely lilac limp little lively local lone lonely "
    "long loose loud lovely low loyal lucid lucky lunar lush magenta major many maroon massive mature meager mean mellow "
    "merry messy mighty mild minor minty misty mobile modern modest moist moral muddy mute narrow nasty native neat new "
    "nice nimble noble noisy normal numb oblong odd old olive only open optimal orange ornate other outer oval pale past "
    "patient peaceful perfect petty pink plain playful pleasant plump polite poor popular precious pretty prime private "
    "prompt proper proud public puny pure purple quaint quick quiet rainy rapid rare raw ready real recent red regal remote "
    "rich rigid ripe roomy rosy rotten rough round royal ruby rude rural rustic sad safe salty sandy scarce scary scented "
    "secret secure senior serene severe shabby shady shaggy shallow sharp shiny short shrill shy silent silky silly silver "
    "simple sincere single sleek sleepy slender slim slippery slow sly small smart smooth snowy sober soft solar solid sore "
    "sour spare special speedy spicy spotless square stable stale stark steady steep sticky stiff stout straight strange "
    "strict strong sturdy subtle sudden sunny super sure sweet swift tall tame tan tart tasty teal tender tense thick thin "
    "thirsty thorny tidy tight timely tiny tired total tough tranquil tricky true trusty twin ugly unique upbeat upper "
    "urban urgent useful usual vacant vague vain valid vast velvet vibrant violet vital vivid warm wary watery weak wealthy "
    "weary weird wet white whole wicked wide wild windy wise witty wooden woolly worthy yellow young yummy zany zesty";

constexpr std::string_view kNouns =
    "acorn actor album alley almond amulet anchor angle ankle answer ant apple apron arch arena arm armor arrow artist "
    "atlas attic aunt author avenue axe baby badge bag baker balcony ball balloon bamboo banana bandage banjo bank banner "
    "bar bark barn barrel basin basket bat bath beach bead beak bean bear beard beast bed bee beetle bell belt bench berry "
    "bike bird biscuit blade blanket blossom board boat body bolt bone bonnet book boot border bottle bowl box boy bracelet "
    "brain branch bread breeze brick bridge broom brother brush bubble bucket bud buffalo bugle builder bull bunny bus bush "
    "butter button cabin cabinet cable cactus cake calendar camel camera camp canal candle candy cane canoe canvas canyon "
    "cap cape captain car caravan card cargo carpet carrot cart castle cat cave cedar ceiling cellar cello cement chain "
    "chair chalk chapel chart cheese cherry chess chest chicken child chimney chin church circle circus city clam clarinet "
    "clay cliff clinic cloak clock cloth cloud clover club coach coal coast coat cobra cocoa coconut coffee coin collar "
    "comb comet compass cook copper cork corn corner cottage cotton couch county court cousin cow crab cradle crane crate "
    "crayon cricket crow crown crystal cub cube cup cupboard curtain cushion dad dagger daisy dancer dawn deer dentist "
    "desert desk diamond diary dice dinner dish ditch doctor dog doll dolphin donkey door dove dragon drawer dress drum "
    "duck dune dust eagle ear earth easel echo edge eel egg elbow elephant elevator elm ember emperor engine envelope "
    "evening eye fabric face factory falcon family farm farmer father feast feather fence fern ferry field fig finger fire "
    "fish flag flame flask flea fleet flood floor flour flower flute fly foam fog folder foot forest fork fort fossil "
    "fountain fox frame friend frog fruit fur garage garden garlic garment gate gazebo gem ghost gift ginger giraffe girl "
    "glacier glass globe glove glue goat gold goose gorge gown grain grandma grape grass gravel grove guard guest guitar "
    "gulf gum gym hail hair hall hammer hammock hand handle hangar harbor harp hat hawk hay head heart heater hedge heel "
    "helmet hen herb hill hinge hip hive hole honey hood hoof hook horn horse hose hotel hour house hut iceberg idea igloo "
    "infant ink insect island item jacket jaguar jam jar jasmine jaw jelly jewel jigsaw judge juice jungle kayak kettle key "
    "king kiosk kitchen kite kitten knee knife knight knot label lace ladder lady lake lamb lamp lane lantern lapel laptop "
    "lark laser laundry lava lawn leaf leather ledge leg lens leopard letter lettuce library lid lily lime limestone line "
    "lion lip lizard llama lobster lock locket lodge log lotus lumber lung machine magnet maid mail mall mango manor mantle "
    "map maple marble market marsh mask mast mat match meadow meal meat medal melon menu mermaid metal meteor milk mill "
    "mine miner minute mirror mitten moat mole monkey month moon moose morning mosque moss moth mother motor mountain mouse "
    "mouth mug mule muscle museum mushroom music nail napkin neck necklace needle nephew nest net nickel niece night noodle "
    "nose note notebook novel nurse nut oak oar oasis oat ocean octopus office oil onion opera orchard orchid organ ostrich "
    "otter oven owl owner ox oyster package paddle page pail paint palace palm pan panda panel panther paper parade parcel "
    "parent park parrot parsley pasta paste path patio paw pea peach peacock peanut pear pearl pebble pedal pelican pen "
    "pencil penguin penny people pepper perfume piano pickle picnic picture pie pier pig pigeon pillar pillow pilot pin "
    "pine pipe pirate pizza plane planet plank plant plate plaza plum pocket poem poet pole polo pond pony pool popcorn "
    "porch port post pot potato pouch powder prairie present prince prism prize puddle pulley pump pumpkin pupil puppet "
    "puppy purse puzzle pyramid quail quarry quartz queen quill quilt rabbit raccoon radar radio radish raft rail rain "
    "rainbow raisin ram ranch raven razor reef ribbon rice riddle rifle ring river road robe robin robot rock rocket rod "
    "roof room rooster root rope rose rower rug ruler saddle sail sailor salad salmon salt sand sandal satin sauce saucer "
    "scale scarf school scissors scooter screen screw sea seal season seat seed shadow shark shed sheep sheet shelf shell "
    "shelter shield ship shirt shoe shop shore shoulder shovel shower shrimp shrub sign silk singer sink siren sister skate "
    "ski skirt skull sky slate sled sleeve slipper snail snake snow soap sock sofa soil soldier song soup spade spark "
    "sparrow spice spider spinach spire sponge spoon spring spruce squid squirrel stadium stage stair stall stamp star "
    "statue steak steam steel stem stew stone stool storm story stove stranger straw stream street string student sugar "
    "suit sultan summer sun swamp swan sweater sword syrup table tail tailor tambourine tank tape target taxi tea teacher "
    "team temple tennis tent theater thistle thorn thread throat throne thumb thunder ticket tiger tile timber tire toast "
    "toe tomato tongue tooth torch tortoise tower town toy tractor trail train tray treasure tree trench tribe trolley "
    "trophy trousers trout truck trumpet trunk tube tulip tunnel turkey turnip turtle tutor twig uncle uniform valley valve "
    "van vase vault vegetable veil vessel vest village vine vinegar viola violin visitor voice volcano voyage vulture wagon "
    "waist waiter wall wallet walnut walrus wand wardrobe wasp watch water wave wax weasel web week well whale wheat wheel "
    "whip whisker whistle widow wife willow wind window wine wing winter wire wolf woman wood wool word worker worm wreath "
    "wrench wrist yacht yard yarn yeast yogurt zebra zinc zipper zoo";

constexpr std::string_view kVerbs =
    "accept admire admit advise agree allow amuse announce appear applaud approve argue arrange arrest arrive ask attach "
    "attack avoid bake balance beg begin behave believe belong bless blink blow boast boil borrow bounce bow break breathe "
    "breed bring build burn bury buy calculate call care carry carve catch cause challenge change charge chase cheat check "
    "cheer chew choose clap climb cling collect come command compare complain complete confess confuse connect consider "
    "contain continue copy cough count cover crawl create creep cross cry cure cut dance dare decay deceive decide decorate "
    "delay delight deliver depend describe destroy develop dig disagree discover dive divide draw dream drift drill drink "
    "drive drop earn eat educate embrace employ encourage end enjoy enter escape examine excite excuse exist expand expect "
    "explain explode extend fade fail fall fasten fear feed feel fetch fight fill find fix flee float flow fold follow "
    "forget forgive freeze fry gather gaze get give glide go grab greet grin grip groan grow guess guide happen harm hate "
    "haul heal hear help hide hit hold hop hope hover hug hum hunt hurry identify ignore imagine impress improve include "
    "increase inform inject injure insist inspect interest invent invite itch jog join joke juggle jump kick kill kiss "
    "kneel knit knock know land laugh launch lay lead leap learn leave lend let lick lie lift like listen live load look "
    "lose love make manage march mark marry measure meet melt mend mix moan move multiply murmur need nod notice obey "
    "observe obtain occur offer order owe own pack part pass pause pay peel perform permit pick place plan play plead "
    "please plug point poke polish possess pour practice praise pray preach prefer prepare preserve pretend prevent prick "
    "produce promise protect prove provide pull punch push put question race raise reach read realize receive recognize "
    "record reduce reflect refuse regret reign reject rejoice relax release rely remain remember remind remove repair "
    "repeat replace reply report request rescue rest return ride rinse rise risk roar roll rub ruin run rush save say "
    "scatter scold scrape scratch scream search see seek seem sell send separate serve settle sew shake share shave shine "
    "shiver shock shoot shout show shrink shrug shut sigh signal sing sit skip slap sleep slide smash smell smile sneeze "
    "sniff soak soar solve sow speak spell spend spill spin split spoil spread sprout squeak squeeze stand stare start stay "
    "steal steer step stir stitch stop store strap strengthen stretch stride strike stroke study succeed suffer suggest "
    "support suppose surprise surround suspect sway swear sweep swell swim swing take talk tap taste teach tear tease tell "
    "tempt thank think throw tickle tie touch tour trace trade travel treat tremble trick trip trot trust try tug tumble "
    "turn twist type understand undo unite unlock vanish visit wait wake walk wander want warn wash waste wear weave weep "
    "weigh welcome whirl whisper win wink wipe wish wonder work worry wrap wreck wrestle wriggle write yawn yell";

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
        const size_t end = std::min(text.find(' '), text.size());
        out.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

}  // namespace

std::span<const std::string_view> adjectives() {
    static const auto list = words_of(kAdjectives);
    return list;
}

std::span<const std::string_view> nouns() {
    static const auto list = words_of(kNouns);
    return list;
}

std::span<const std::string_view> verbs() {
    static const auto list = words_of(kVerbs);
    return list;
}

std::span<const std::string_view> common_words() {
    static const std::vector<std::string_view> list = [] {
        std::vector<std::string_view> all;
        for (const auto part : {adjectives(), nouns(), verbs()}) { all.insert(all.end(), part.begin(), part.end()); }
        std::sort(all.begin(), all.end());
        return all;
    }();
    return list;
}

}  // namespace pith::corpus
